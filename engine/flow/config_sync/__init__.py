"""Topic configs, ACLs and quotas kept in step: a look at both sides, a plan, its changes, an audit of each."""
