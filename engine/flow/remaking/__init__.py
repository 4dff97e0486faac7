"""Makes topics of a cluster anew, for a failback: deletes them and creates them as they were.

It may import the ports, policies and the base. Clusters come in as ports; what is to be made goes out as rows that an
operation stores before anything is deleted.
"""
