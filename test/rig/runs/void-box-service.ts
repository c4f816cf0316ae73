/** Void-Box's API on stores in memory, with a Temporal server that only counts and no worker. */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { RunRequest } from '../../../activities/contract.ts';
import type { Machine } from '../../../app/machine.ts';
import type { ServerLink } from '../../../client/temporal/server-link.ts';
import { EVENT_ID } from '../../../domain/run/event-id.ts';
import type { NewRunEvent, RunEventBody, RunOutcome } from '../../../domain/run/event.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import { createApi, type Api } from '../../../server/api.ts';
import { API_LIMITS, type ApiLimits } from '../../../server/limits.ts';
import type { Bindings } from '../../../server/listener.ts';
import { readEnvironment } from '../../../setup/environment.ts';
import type { AccessStore } from '../../../store/access.ts';
import { openUploads } from '../../../store/open-uploads.ts';
import type { Stores } from '../../../store/stores.ts';
import { writeTar } from '../../../tar/write.ts';
import { OWNER, refuseAccess } from '../access/owner.ts';
import { MemoryPlace, openMemoryStores } from './memory-stores.ts';
import { stageResult } from './stage-results.ts';

/** A spec whose only step needs no VM. */
export const SPEC =
  'kind: workflow\nname: shop\nsandbox: { mode: mock, isolation: none }\nworkflow: { steps: [{ name: a, run: ls }] }\n';

export interface VoidBoxService {
  readonly dir: string;
  readonly stores: Stores;
  /** The workflows that were started. */
  readonly started: { readonly workflowId: string; readonly args: readonly [RunRequest] }[];
  /** The ids of runs that were cancelled. */
  readonly cancelled: string[];
  readonly logged: string[];
  /** As the owner, unless other bindings are given. */
  request(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Response>;
  /** @returns the body of an answer with the status 200 */
  get<T>(path: string): Promise<T>;
  writeSpec(name: string, text?: string): string;
  close(): void;
}

export interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly bindings?: Bindings;
}

export interface ServiceOptions {
  /** `none`: no Temporal server answers. */
  readonly server?: 'counts' | 'none';
  readonly readSpecRoot?: () => string | null;
  readonly access?: AccessStore;
  readonly limits?: Partial<ApiLimits>;
  readonly stores?: (stores: Stores) => Stores;
}

export function openVoidBoxService(options: ServiceOptions = {}): VoidBoxService {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-v1-')));
  const memory = openMemoryStores(new MemoryPlace());
  const stores = options.stores?.(memory) ?? memory;
  const started: VoidBoxService['started'] = [];
  const cancelled: string[] = [];
  const logged: string[] = [];
  const link = createLink(memory, started, cancelled);
  const env = readEnvironment({
    VOIDBOX_STATE_DIR: join(dir, 'state'),
    VOIDBOX_CACHE_DIR: join(dir, 'cache'),
    HOME: dir,
    SECRET_OF_THE_SERVICE: 'sesame',
  });
  const machine: Machine = {
    env,
    cwd: '/',
    readStdin: () => Promise.reject(new Error('nothing to read')),
    confirm: () => Promise.resolve(null),
    stores: () => Promise.resolve(stores),
    now: () => new Date(),
    stackLink: () => Promise.resolve(options.server === 'none' ? null : link),
    warn: () => Promise.resolve(),
  };
  const { access, readSpecRoot } = options;
  const api: Api = createApi({
    machine,
    uploads: openUploads(env),
    access: access === undefined ? refuseAccess : () => Promise.resolve(access),
    version: '1.2.3',
    limits: { ...API_LIMITS, ...options.limits },
    log: (line) => logged.push(line),
    ...(readSpecRoot === undefined ? {} : { readSpecRoot }),
  });
  const request: VoidBoxService['request'] = async (method, path, body, { headers = {}, bindings = OWNER } = {}) =>
    await api.request(
      path,
      {
        method,
        headers,
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      },
      bindings,
    );
  return {
    dir,
    stores,
    started,
    cancelled,
    logged,
    request,
    async get<T>(path: string) {
      const response = await request('GET', path);
      if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
      return (await response.json()) as T;
    },
    writeSpec(name, text = SPEC) {
      const path = join(dir, name);
      writeFileSync(path, text);
      return path;
    },
    close: () => rmSync(dir, { recursive: true, force: true }),
  };
}

function createLink({ events, reader }: Stores, started: VoidBoxService['started'], cancelled: string[]): ServerLink {
  const hasEnded = async (runId: string): Promise<boolean> => (await events.find(runId, EVENT_ID.runFinished)) !== null;
  const isOpen = async (runId: string): Promise<boolean> => {
    for await (const _ of reader.read(runId, 0)) return !(await hasEnded(runId));
    return started.some(({ workflowId }) => workflowId === runId);
  };
  const workflow = {
    getHandle: (runId: string) => ({
      async describe() {
        if (!(await isOpen(runId))) throw new WorkflowNotFoundError('none', runId, undefined);
        return {
          status: { name: 'RUNNING' },
          startTime: new Date(),
          closeTime: undefined,
          raw: { workflowExtendedInfo: { cancelRequested: false } },
        };
      },
      async cancel() {
        cancelled.push(runId);
        await events.append(runId, [finish('cancelled')]);
      },
    }),
    start(_type: string, options: VoidBoxService['started'][number]) {
      started.push(options);
      return Promise.resolve();
    },
  };
  const client = { workflow } as unknown as Client;
  const link = {
    // A start then does not wait for its admission, because no worker admits it.
    isEmbedded: false,
    address: () => 'nowhere',
    client: () => client,
    runUrl: () => null,
    briefly: <T>(call: (given: Client) => Promise<T>) => call(client),
  };
  return link as Partial<ServerLink> as ServerLink;
}

export function finish(
  state: RunOutcome['state'],
  change: Partial<Omit<RunOutcome, 'state'>> = {},
  atMs = 5_000,
): NewRunEvent {
  const outcome: RunOutcome = { state, failedStage: null, failure: null, output: null, ...change };
  return { id: EVENT_ID.runFinished, atMs, body: { type: 'run-finished', outcome } };
}

/** Makes events with ids of their own, each 100 ms after the one before. */
export function listEvents(...bodies: readonly RunEventBody[]): readonly NewRunEvent[] {
  return bodies.map((body, index) => ({
    id: body.type === 'run-admitted' ? EVENT_ID.runAdmitted : `e${index}`,
    atMs: 1_000 + 100 * index,
    body,
  }));
}

export function admit(kind: string, ...stages: readonly string[]): RunEventBody {
  return {
    type: 'run-admitted',
    name: 'shop',
    kind,
    hostId: 'here',
    stages: stages.map((id, index) => ({ id, dependsOn: stages.slice(Math.max(0, index - 1), index) })),
    outputStage: stages.at(-1) ?? null,
    ...(kind === 'workflow' ? {} : { agents: stages }),
  };
}

export function begin(stage: string): RunEventBody {
  return { type: 'stage-started', stage, execKey: `${stage}/0/1`, attempt: 1 };
}

export function print(stage: string, data: string): RunEventBody {
  const owner = { stage, execKey: `${stage}/0/1` };
  return { type: 'output', ...owner, stream: 'stdout', from: 0, to: data.length, encoding: 'utf8', data };
}

export function end(stage: string, change: Partial<Omit<StageResult, 'execKey'>> = {}): RunEventBody {
  const execKey = `${stage}/0/1`;
  return { type: 'stage-finished', stage, execKey, result: stageResult(execKey, change) };
}

/** Stores bytes as an artifact. */
export async function keep({ artifacts }: Stores, text: string, mediaType = 'application/json') {
  return await artifacts.put(toBytes(text), mediaType);
}

/** Stores files as an artifact that is a tar. */
export async function keepFiles({ artifacts }: Stores, files: Readonly<Record<string, string>>) {
  const items = Object.entries(files).map(([path, text]) => ({
    kind: 'file' as const,
    path,
    mode: 0o644,
    body: Buffer.from(text),
  }));
  return await artifacts.put(writeTar(items), 'application/x-tar');
}

async function* toBytes(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

/** Leaves a run that this API has started. */
export async function leaveStarted({ records }: Stores, runId: string, policy: object | null = null): Promise<void> {
  await records.create(runId, 'void-box', { file: '/specs/shop.yaml', atMs: 900, policy });
}
