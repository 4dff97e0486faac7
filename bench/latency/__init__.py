"""The bench `latency`: a producer and a consumer of librdkafka in processes of their own, and a system between them."""
