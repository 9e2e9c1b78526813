"""The steps by confluent-kafka, that is librdkafka."""

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import steps

told = steps.Arguments()
servers = {"bootstrap.servers": ",".join(told.bootstrap)}
admin = AdminClient(servers)


def done(futures):
    for future in futures.values():
        future.result(timeout=steps.PATIENCE_SECONDS)


def create():
    done(admin.create_topics([NewTopic(told.topic, steps.PARTITIONS, steps.REPLICAS)]))
    return seen(steps.PARTITIONS)


def create_again():
    try:
        done(admin.create_topics([NewTopic(told.topic, steps.PARTITIONS, steps.REPLICAS)]))
    except KafkaException as error:
        return f"error {error.args[0].code()}"
    return "no error"


def grow():
    done(admin.create_partitions([NewPartitions(told.topic, steps.GROWN)]))
    return seen(steps.GROWN)


def seen(partitions):
    for _ in steps.patience():
        topic = admin.list_topics(timeout=steps.PATIENCE_SECONDS).topics.get(told.topic)
        found = topic.partitions.values() if topic else []
        if len([partition for partition in found if partition.leader >= 0]) == partitions:
            replicas = {len(partition.replicas) for partition in found}
            return f"{partitions} partitions, {sorted(replicas)} replicas"


def produce():
    producer = Producer(servers | {"enable.idempotence": True})
    answered = []
    for number in range(steps.RECORDS):
        producer.produce(told.topic, b"%d" % number, on_delivery=lambda error, _: answered.append(error))
    producer.flush(steps.PATIENCE_SECONDS)
    return f"{answered.count(None)} acknowledged"


def transact():
    producer = Producer(servers | {"transactional.id": told.group})
    producer.init_transactions(steps.PATIENCE_SECONDS)
    producer.begin_transaction()
    for number in range(steps.COMMITTED):
        producer.produce(told.topic, b"c%d" % number)
    producer.commit_transaction(steps.PATIENCE_SECONDS)
    producer.begin_transaction()
    for number in range(steps.ABORTED):
        producer.produce(told.topic, b"a%d" % number)
    producer.flush(steps.PATIENCE_SECONDS)
    producer.abort_transaction(steps.PATIENCE_SECONDS)
    return "one committed, one aborted"


def consume():
    consumer = Consumer(
        servers
        | {
            "group.id": told.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([told.topic])
    read = []
    for _ in steps.patience():
        records = consumer.consume(num_messages=500, timeout=0.5)
        read.extend(record.value() for record in records if record.error() is None)
        if len(read) >= steps.RECORDS + steps.COMMITTED:
            break
    consumer.commit(asynchronous=False)
    consumer.close()
    return f"{len(read)} read, {len(set(read))} of them different"


def list_groups():
    listed = admin.list_consumer_groups(request_timeout=steps.PATIENCE_SECONDS).result()
    if listed.errors:
        raise listed.errors[0]
    return f"listed {sum(1 for group in listed.valid if group.group_id == told.group)} times"


def group_offsets():
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(told.group)])
    partitions = asked[told.group].result(timeout=steps.PATIENCE_SECONDS).topic_partitions
    # How many partitions have one depends on where the partitioner put the records.
    return "found" if partitions else "none"


def delete():
    done(admin.delete_topics([told.topic], operation_timeout=steps.PATIENCE_SECONDS))
    for _ in steps.patience():
        if told.topic not in admin.list_topics(timeout=steps.PATIENCE_SECONDS).topics:
            return "gone"


for step in [create, create_again, grow, produce, transact, consume, list_groups, group_offsets, delete]:
    steps.tell(step.__name__.replace("_", " "), step)
