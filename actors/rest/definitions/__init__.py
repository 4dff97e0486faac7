"""The settings of MM2's connector classes, as Kafka 4.3 defines them, and the judgement of given settings.

`rows` is the table: names, types, defaults, limits. `documents` has a sentence for each key: what it means here, which
is not always what it means to MM2. `judging` judges settings as Kafka's ConfigDef does, with its words.
"""
