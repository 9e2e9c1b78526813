"""The steps by kafka-python, which takes one node's versions for the whole cluster's."""

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from kafka.errors import TopicAlreadyExistsError

import steps

told = steps.Arguments()
admin = KafkaAdminClient(bootstrap_servers=told.bootstrap)


def create():
    admin.create_topics([NewTopic(told.topic, steps.PARTITIONS, steps.REPLICAS)])
    return seen(steps.PARTITIONS)


def create_again():
    try:
        admin.create_topics([NewTopic(told.topic, steps.PARTITIONS, steps.REPLICAS)])
    except TopicAlreadyExistsError as error:
        return f"error {error.errno}"
    return "no error"


def grow():
    admin.create_partitions({told.topic: NewPartitions(steps.GROWN)})
    return seen(steps.GROWN)


def described():
    for topic in admin.describe_topics([told.topic]):
        if (topic.get("topic") or topic.get("name")) == told.topic and topic["error_code"] == 0:
            return topic["partitions"]
    return []


def seen(partitions):
    for _ in steps.patience():
        found = described()
        leading = [partition for partition in found if partition.get("leader", partition.get("leader_id", -1)) >= 0]
        if len(leading) == partitions:
            replicas = {len(partition.get("replicas", partition.get("replica_nodes"))) for partition in found}
            return f"{partitions} partitions, {sorted(replicas)} replicas"


def produce():
    producer = KafkaProducer(bootstrap_servers=told.bootstrap, acks="all", enable_idempotence=True)
    sent = [producer.send(told.topic, b"%d" % number) for number in range(steps.RECORDS)]
    answered = [one.get(timeout=steps.PATIENCE_SECONDS) for one in sent]
    producer.close()
    return f"{len(answered)} acknowledged"


def transact():
    producer = KafkaProducer(
        bootstrap_servers=told.bootstrap, acks="all", enable_idempotence=True, transactional_id=told.group
    )
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(steps.COMMITTED):
        producer.send(told.topic, b"c%d" % number)
    producer.commit_transaction()
    producer.begin_transaction()
    for number in range(steps.ABORTED):
        producer.send(told.topic, b"a%d" % number)
    producer.flush()
    producer.abort_transaction()
    producer.close()
    return "one committed, one aborted"


def consume():
    consumer = KafkaConsumer(
        told.topic,
        bootstrap_servers=told.bootstrap,
        group_id=told.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    read = []
    for _ in steps.patience():
        for records in consumer.poll(timeout_ms=500).values():
            read.extend(record.value for record in records)
        if len(read) >= steps.RECORDS + steps.COMMITTED:
            break
    consumer.commit()
    consumer.close()
    return f"{len(read)} read, {len(set(read))} of them different"


def list_groups():
    listed = admin.list_groups()
    times = sum(1 for group in listed if told.group in (group if isinstance(group, tuple) else group.values()))
    return f"listed {times} times"


def delete():
    admin.delete_topics([told.topic])
    for _ in steps.patience():
        if told.topic not in admin.list_topics():
            return "gone"


for step in [create, create_again, grow, produce, transact, consume, list_groups, delete]:
    steps.tell(step.__name__.replace("_", " "), step)
admin.close()
