// A worker as Temporal's docs write it, with Voidbox as a plugin: node worker.mjs HOST:PORT [--mock]
import { fileURLToPath } from 'node:url';
import { NativeConnection, Worker } from '@temporalio/worker';
import { createVoidboxPlugin } from 'voidbox/temporal';

const [address = 'localhost:7233', ...flags] = process.argv.slice(2);

const activities = {
  announce: async (text) => `published: ${text}`,
};

const connection = await NativeConnection.connect({ address });
try {
  const worker = await Worker.create({
    connection,
    taskQueue: 'newsroom',
    workflowsPath: fileURLToPath(new URL('workflows.ts', import.meta.url)),
    activities,
    plugins: [createVoidboxPlugin(flags.includes('--mock') ? { sandbox: 'mock' } : {})],
  });
  await worker.run();
} finally {
  await connection.close();
}
