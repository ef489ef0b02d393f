// Listens to one task with the TypeScript client, which knows the stream but not
// tasks: it shows no taskIds among what was acknowledged, and the notifications
// come to its fallback handler. Prints what came as one line
// of JSON when the stream has ended: node tslisten.mjs URL TASK
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, task] = process.argv.slice(2);
const client = new Client({ name: 'ts', version: '0' }, {
  capabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } },
  versionNegotiation: { mode: 'auto' },
});
const statuses = [];
client.fallbackNotificationHandler = async (note) => {
  if (note.method === 'notifications/tasks' && note.params.taskId === task) statuses.push(note.params.status);
};
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const subscription = await client.listen({ taskIds: [task] });
const closed = await subscription.closed;
console.log(JSON.stringify({ era: client.getProtocolEra(), statuses, closed }));
process.exit(0);
