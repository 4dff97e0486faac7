"""What tests on real brokers share: topics, loads, a mirror that can be run again and again, and the comparison."""
