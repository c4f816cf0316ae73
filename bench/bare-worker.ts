/** A worker process of its own for the bare loop, so that its CPU time is its own. Arguments: address, workflow file, task queue (`bare` by default). */
import { setTimeout as sleep } from 'node:timers/promises';
import { NativeConnection, Worker } from '@temporalio/worker';

const [address, workflowsPath, taskQueue = 'bare'] = process.argv.slice(2);
if (address === undefined || workflowsPath === undefined)
  throw new Error('usage: bare-worker ADDRESS WORKFLOWS [TASK-QUEUE]');
const connection = await NativeConnection.connect({ address, grpcCompression: { codec: 'none' } });
const worker = await Worker.create({
  connection,
  taskQueue,
  workflowsPath,
  activities: {
    noop: async () => undefined,
    wait: (ms: number) => sleep(ms),
  },
});
process.stdout.write('ready\n');
process.once('SIGTERM', () => worker.shutdown());
await worker.run();
