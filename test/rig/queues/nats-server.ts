/** A server of NATS for tests, with JetStream in a folder of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream';
import {
  connect,
  type ConnectionOptions,
  headers as createHeaders,
  type NatsConnection,
} from '@nats-io/transport-node';
import { readEnvironment } from '../../../setup/environment.ts';
import { resolveStackPieces } from '../../../setup/resolve.ts';
import { ensureNatsServer } from './nats-program.ts';

const START_LIMIT_MS = 30_000;
const LOOK_MS = 10;
const LEAST_PORT = 20_000;
const PORTS = 12_000;
const MOST_TRIES = 20;
const NANOS_PER_MS = 1_000_000;

export interface NatsServerOptions {
  /** Lines of the server's configuration, such as its users. */
  readonly settings?: readonly string[];
  /** How tests connect, if the server asks for more than an address. */
  readonly client?: ConnectionOptions;
  /** The most bytes of a message; NATS has 1 MiB. */
  readonly mostBytes?: number;
}

export interface TestNatsServer {
  readonly port: number;
  /** Such as `nats://127.0.0.1:4222`. */
  readonly address: string;
  /** Makes the stream `ORDERS` of the subjects `orders.>`. */
  addStream(): Promise<void>;
  /** Makes a durable consumer of all messages of `ORDERS`, as a service makes it. */
  addConsumer(name: string, ackWaitMs: number): Promise<void>;
  /** @returns the number of the message in the stream */
  publish(subject: string, body: Uint8Array | string, headers?: Readonly<Record<string, string>>): Promise<number>;
  countUnsettled(consumer: string): Promise<number>;
  /** Connects as a test does. The caller closes the connection. */
  connect(): Promise<NatsConnection>;
  /** SIGKILL. */
  kill(): Promise<void>;
  /** Starts again, with its port and its data. */
  start(): Promise<void>;
  /** Kills and starts. Calls at the same time take turns: the second one does not kill what the first one starts. */
  restart(): Promise<void>;
  stop(): Promise<void>;
}

export async function startNatsServer(options: NatsServerOptions = {}): Promise<TestNatsServer> {
  const program = await ensureNatsServer(() => undefined);
  const { keeper } = await resolveStackPieces(readEnvironment(), { install: true });
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-test-nats-'));
  const server = new NatsServer({ program, keeper, dir }, options);
  try {
    await server.start();
  } catch (error) {
    await server.stop();
    throw error;
  }
  return server;
}

interface NatsPrograms {
  readonly program: string;
  readonly keeper: string;
  readonly dir: string;
}

class NatsServer implements TestNatsServer {
  port = -1;
  readonly #programs: NatsPrograms;
  readonly #options: NatsServerOptions;
  #child: ChildProcess | null = null;
  #client: Promise<NatsConnection> | null = null;
  #turn: Promise<void> = Promise.resolve();

  constructor(programs: NatsPrograms, options: NatsServerOptions) {
    this.#programs = programs;
    this.#options = options;
  }

  get address(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  /** Its port is below those that outgoing connections get: one of them could take it while the server is killed. */
  async start(): Promise<void> {
    const isFirst = this.port === -1;
    for (let tries = 1; ; tries += 1) {
      if (isFirst) this.port = LEAST_PORT + Math.floor(Math.random() * PORTS);
      try {
        return await this.#startOnce();
      } catch (error) {
        if (!isFirst || tries === MOST_TRIES || !String(error).includes('address already in use')) throw error;
      }
    }
  }

  async #startOnce(): Promise<void> {
    const { program, keeper, dir } = this.#programs;
    const { settings = [], mostBytes } = this.#options;
    const config = join(dir, 'nats.conf');
    const lines = [
      `listen: "127.0.0.1:${this.port}"`,
      `jetstream: { store_dir: ${JSON.stringify(join(dir, 'data'))}, sync_interval: always }`,
      ...(mostBytes === undefined ? [] : [`max_payload: ${mostBytes}`]),
      ...settings,
    ];
    writeFileSync(config, `${lines.join('\n')}\n`);
    const ports = join(dir, 'ports');
    rmSync(ports, { recursive: true, force: true });
    const log = join(dir, 'nats.log');
    const args = ['tie', '--', program, '-c', config, '--ports_file_dir', dir, '-l', log];
    const child = spawn(keeper, args, { stdio: 'ignore' });
    this.#child = child;
    const until = Date.now() + START_LIMIT_MS;
    const file = join(dir, `nats-server_${child.pid}.ports`);
    while (this.#readPort(file) === null || !(await this.#answers())) {
      const end = child.exitCode ?? child.signalCode;
      if (end !== null || Date.now() > until)
        throw new Error(
          `nats-server does not start (${end ?? 'no answer'}): ${readFileSync(log, 'utf8').slice(-2_000)}`,
        );
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  #readPort(file: string): number | null {
    try {
      const { nats } = JSON.parse(readFileSync(file, 'utf8')) as { readonly nats: readonly string[] };
      this.port = Number(new URL(nats[0]!.replace(/^\w+/, 'http')).port);
      return this.port;
    } catch {
      return null;
    }
  }

  /** JetStream is up a little later than the port. */
  async #answers(): Promise<boolean> {
    try {
      const client = await this.connect();
      try {
        await jetstreamManager(client, { timeout: 1_000 });
      } finally {
        await client.close();
      }
      return true;
    } catch {
      return false;
    }
  }

  async connect(): Promise<NatsConnection> {
    const { client = {} } = this.#options;
    return await connect({ servers: `127.0.0.1:${this.port}`, reconnect: false, timeout: 5_000, ...client });
  }

  async #use(): Promise<NatsConnection> {
    const client = this.#client === null ? null : await this.#client.catch(() => null);
    if (client !== null && !client.isClosed()) return client;
    this.#client = this.connect();
    return await this.#client;
  }

  async addStream(): Promise<void> {
    const manager = await jetstreamManager(await this.#use());
    await manager.streams.add({ name: 'ORDERS', subjects: ['orders.>'] });
  }

  async addConsumer(name: string, ackWaitMs: number): Promise<void> {
    const manager = await jetstreamManager(await this.#use());
    await manager.consumers.add('ORDERS', {
      durable_name: name,
      ack_policy: AckPolicy.Explicit,
      ack_wait: ackWaitMs * NANOS_PER_MS,
    });
  }

  async publish(
    subject: string,
    body: Uint8Array | string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<number> {
    const list = createHeaders();
    for (const [name, value] of Object.entries(headers)) list.set(name, value);
    return (await jetstream(await this.#use()).publish(subject, body, { headers: list })).seq;
  }

  async countUnsettled(consumer: string): Promise<number> {
    const manager = await jetstreamManager(await this.#use());
    const info = await manager.consumers.info('ORDERS', consumer);
    return info.num_pending + info.num_ack_pending;
  }

  async restart(): Promise<void> {
    this.#turn = this.#turn
      .catch(() => undefined)
      .then(async () => {
        await this.kill();
        await this.start();
      });
    await this.#turn;
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  async stop(): Promise<void> {
    const client = this.#client === null ? null : await this.#client.catch(() => null);
    await client?.close().catch(() => undefined);
    await this.kill();
    rmSync(this.#programs.dir, { recursive: true, force: true });
  }
}
