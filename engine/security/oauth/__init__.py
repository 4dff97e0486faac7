"""OAUTHBEARER logins: where tokens come from, by Kafka's keys or Strimzi's, and when they are fetched again."""
