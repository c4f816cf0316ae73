/** A dev server for tests, in memory: it ends with the process that started it, however that ends. */
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveHostPieces } from '../../../setup/resolve.ts';
import { connectRuns } from '../../../client/temporal/connect.ts';
import { freePort } from '../../../workers/embedded/ports.ts';
import { createEmbeddedAddress } from '../../../client/temporal/temporal-address.ts';

const READY_LIMIT_MS = 30_000;
const GRACE_MS = 5_000;
const LAST_WORDS_CHARACTERS = 2_000;
const MOST_PORTS = 3;
/** A server that lives for a minute leaves little garbage, and collecting it takes a tenth of its CPU time. */
const GO_SETTINGS = { GOGC: '400' };

export interface TestServer {
  /** `host:port` */
  readonly address: string;
  readonly pid: number;
  stop(): Promise<void>;
}

/**
 * @param temporalCli  a path
 * @param flags  of `temporal server start-dev`
 * @throws when it does not answer within 30 s
 */
export async function startTestServer(temporalCli: string, flags: readonly string[] = []): Promise<TestServer> {
  const { keeper } = await resolveHostPieces(readEnvironment(), { install: false });
  for (let tries = 1; ; tries += 1) {
    try {
      return await startOn(await freePort(), keeper, temporalCli, flags);
    } catch (error) {
      // Another process may take the port before the server does.
      if (tries === MOST_PORTS || !(error as Error).message.includes('address already in use')) throw error;
    }
  }
}

async function startOn(
  port: number,
  keeper: string,
  temporalCli: string,
  flags: readonly string[],
): Promise<TestServer> {
  const where = ['--headless', '--ip', '127.0.0.1', '--port', String(port), '--log-level', 'warn'];
  const tuned = ['--dynamic-config-value', 'history.transferProcessorMaxPollRPS=2000'];
  const child = spawn(keeper, ['tie', '--', temporalCli, 'server', 'start-dev', ...where, ...tuned, ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...GO_SETTINGS },
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let words = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (words = `${words}${chunk.toString()}`.slice(-LAST_WORDS_CHARACTERS)));
  child.once('error', (error) => (words += error.message));
  const stop = async (): Promise<void> => {
    const kill = setTimeout(() => child.kill('SIGKILL'), GRACE_MS);
    child.kill('SIGTERM');
    await ended;
    clearTimeout(kill);
  };
  const address = `127.0.0.1:${port}`;
  for (const end = Date.now() + READY_LIMIT_MS; !(await isUp(address)); await sleep(50)) {
    if (Date.now() < end && child.exitCode === null && child.signalCode === null) continue;
    await stop();
    throw new Error(`the dev server did not come up on ${address}:\n${words}`);
  }
  return { address, pid: child.pid!, stop };
}

async function isUp(address: string): Promise<boolean> {
  const target = createEmbeddedAddress(address);
  try {
    const { connection, close } = await connectRuns(target, 1_000);
    try {
      await connection.workflowService.describeNamespace({ namespace: target.namespace });
    } finally {
      await close();
    }
    return true;
  } catch {
    return false;
  }
}
