// Starts the workflow `publish` and waits for it: node start.mjs HOST:PORT [HEADLINE]
import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { box, definePipeline } from 'voidbox';

const [address = 'localhost:7233', headline = 'hello world'] = process.argv.slice(2);

// A plan is data. It is made here, where code may do anything, and the workflow gets it as an argument.
const { plan, diagnostics } = definePipeline({
  name: 'build',
  sandbox: { memoryMib: 256 },
  stages: [box('write', ['echo', 'a page']), box('check', ['cat', '/workspace/input.json'])],
}).compile();
if (plan === null) throw new Error(diagnostics.map(({ message }) => message).join('\n'));

const connection = await Connection.connect({ address });
const client = new Client({ connection });
process.stdout.write(
  `${await client.workflow.execute('publish', {
    taskQueue: 'newsroom',
    workflowId: `publish-${randomUUID()}`,
    args: [plan, headline],
  })}\n`,
);
await connection.close();
