"""Which lanes of a copier may be fetched now, and how much: bandwidth (token buckets) and classes of priority.

The router asks before each fetch and reports what arrived. Imports lanes and `policies.traffic`; opens no connection.
"""
