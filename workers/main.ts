/**
 * Entry of a worker process: `node dist/workers/main.js`, by the supervisor or on a host of a shared server. It imports little:
 * where too few files may be open, Node's loader would end it with a stack trace.
 */
import { exitWithoutOpenFiles } from '../setup/require-open-files.ts';

exitWithoutOpenFiles('A worker');
const { serveWorker } = await import('./serve-worker.ts');
await serveWorker();
