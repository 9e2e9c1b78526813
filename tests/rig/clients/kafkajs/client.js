// The steps by kafkajs: see ../python/steps.py for what they are.
import { Kafka, logLevel, CompressionTypes } from "kafkajs";

const [bootstrap, topic, group] = process.argv.slice(2);
const PARTITIONS = 4;
const GROWN = 6;
const REPLICAS = 3;
const RECORDS = 60;
const COMMITTED = 30;
const ABORTED = 10;
const PATIENCE_MS = 40_000;
const PACE_MS = 100;

const kafka = new Kafka({ clientId: "klamm-rig", brokers: bootstrap.split(","), logLevel: logLevel.ERROR });
const admin = kafka.admin();

const numbered = (prefix, count) => Array.from({ length: count }, (_, number) => ({ value: `${prefix}${number}` }));

async function until(look) {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((wake) => setTimeout(wake, PACE_MS));
  }
  throw new Error(`nothing came of it in ${PATIENCE_MS} ms`);
}

async function seen(partitions) {
  return until(async () => {
    const found = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions;
    if (found.filter((partition) => partition.leader >= 0).length !== partitions) return undefined;
    const replicas = [...new Set(found.map((partition) => partition.replicas.length))];
    return `${partitions} partitions, [${replicas}] replicas`;
  });
}

async function create() {
  const wanted = { topic, numPartitions: PARTITIONS, replicationFactor: REPLICAS };
  if (!(await admin.createTopics({ topics: [wanted], waitForLeaders: true }))) throw new Error("not created");
  return seen(PARTITIONS);
}

async function createAgain() {
  // kafkajs takes "exists already" for an answer, not for an error.
  const created = await admin.createTopics({ topics: [{ topic, numPartitions: PARTITIONS }] });
  return created ? "no error" : "error 36";
}

async function grow() {
  await admin.createPartitions({ topicPartitions: [{ topic, count: GROWN }] });
  return seen(GROWN);
}

async function produce() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const messages = numbered("", RECORDS);
  const answered = await producer.send({ topic, acks: -1, messages, compression: CompressionTypes.GZIP });
  await producer.disconnect();
  if (answered.some((partition) => partition.errorCode !== 0)) throw new Error(JSON.stringify(answered));
  return `${messages.length} acknowledged`;
}

async function transact() {
  const producer = kafka.producer({ idempotent: true, transactionalId: group, maxInFlightRequests: 1 });
  await producer.connect();
  const committed = await producer.transaction();
  await committed.send({ topic, messages: numbered("c", COMMITTED) });
  await committed.commit();
  const aborted = await producer.transaction();
  await aborted.send({ topic, messages: numbered("a", ABORTED) });
  await aborted.abort();
  await producer.disconnect();
  return "one committed, one aborted";
}

async function consume() {
  const consumer = kafka.consumer({ groupId: group });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const read = [];
  await consumer.run({ eachMessage: async ({ message }) => void read.push(message.value.toString()) });
  await until(async () => (read.length >= RECORDS + COMMITTED ? true : undefined));
  await consumer.stop();
  await consumer.disconnect();
  return `${read.length} read, ${new Set(read).size} of them different`;
}

async function listGroups() {
  const { groups } = await admin.listGroups();
  return `listed ${groups.filter((listed) => listed.groupId === group).length} times`;
}

async function remove() {
  await admin.deleteTopics({ topics: [topic] });
  return until(async () => ((await admin.listTopics()).includes(topic) ? undefined : "gone"));
}

const STEPS = [
  ["create", create],
  ["create again", createAgain],
  ["grow", grow],
  ["produce", produce],
  ["transact", transact],
  ["consume", consume],
  ["list groups", listGroups],
  ["delete", remove],
];

await admin.connect();
for (const [step, act] of STEPS) {
  try {
    console.log(`${step}: ${await act()}`);
  } catch (error) {
    console.log(`${step}: FAILED ${error.name}: ${String(error.message).split("\n")[0]}`);
  }
}
await admin.disconnect();
