"""The steps by aiokafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic

import steps

told = steps.Arguments()
admin = None


def errors(answer):
    for topic in getattr(answer, "topic_errors", None) or getattr(answer, "topic_error_codes", []):
        if topic[1] != 0:
            raise RuntimeError(f"error {topic[1]}")


async def create():
    errors(await admin.create_topics([NewTopic(told.topic, steps.PARTITIONS, steps.REPLICAS)]))
    return await seen(steps.PARTITIONS)


async def create_again():
    answer = await admin.create_topics([NewTopic(told.topic, steps.PARTITIONS, steps.REPLICAS)])
    return f"error {answer.topic_errors[0][1]}"


async def grow():
    errors(await admin.create_partitions({told.topic: NewPartitions(steps.GROWN)}))
    return await seen(steps.GROWN)


async def seen(partitions):
    for _ in steps.patience():
        for topic in await admin.describe_topics([told.topic]):
            found = topic["partitions"] if topic["error_code"] == 0 else []
            if len([partition for partition in found if partition["leader"] >= 0]) == partitions:
                replicas = {len(partition["replicas"]) for partition in found}
                return f"{partitions} partitions, {sorted(replicas)} replicas"


async def produce():
    producer = AIOKafkaProducer(bootstrap_servers=told.bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    sent = [await producer.send(told.topic, b"%d" % number) for number in range(steps.RECORDS)]
    answered = await asyncio.wait_for(asyncio.gather(*sent), steps.PATIENCE_SECONDS)
    await producer.stop()
    return f"{len(answered)} acknowledged"


async def transact():
    producer = AIOKafkaProducer(bootstrap_servers=told.bootstrap, transactional_id=told.group)
    await producer.start()
    await producer.begin_transaction()
    for number in range(steps.COMMITTED):
        await producer.send(told.topic, b"c%d" % number)
    await producer.commit_transaction()
    await producer.begin_transaction()
    for number in range(steps.ABORTED):
        await producer.send(told.topic, b"a%d" % number)
    await producer.flush()
    await producer.abort_transaction()
    await producer.stop()
    return "one committed, one aborted"


async def consume():
    consumer = AIOKafkaConsumer(
        told.topic,
        bootstrap_servers=told.bootstrap,
        group_id=told.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await consumer.start()
    read = []
    for _ in steps.patience():
        for records in (await consumer.getmany(timeout_ms=500)).values():
            read.extend(record.value for record in records)
        if len(read) >= steps.RECORDS + steps.COMMITTED:
            break
    await consumer.commit()
    await consumer.stop()
    return f"{len(read)} read, {len(set(read))} of them different"


async def list_groups():
    listed = await admin.list_consumer_groups()
    return f"listed {sum(1 for group in listed if group[0] == told.group)} times"


async def delete():
    errors(await admin.delete_topics([told.topic]))
    for _ in steps.patience():
        if told.topic not in await admin.list_topics():
            return "gone"


async def main():
    global admin
    admin = AIOKafkaAdminClient(bootstrap_servers=told.bootstrap)
    await admin.start()
    for step in [create, create_again, grow, produce, transact, consume, list_groups, delete]:
        await steps.tell_async(step.__name__.replace("_", " "), step)
    await admin.close()


asyncio.run(main())
