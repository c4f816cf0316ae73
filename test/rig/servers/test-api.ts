/** The HTTP API on a Unix socket of this process. */
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Machine } from '../../../app/machine.ts';
import type { SessionControl } from '../../../app/sessions/session-control.ts';
import type { HookServices, ScheduleServices } from '../../../server/api-options.ts';
import { createApi } from '../../../server/api.ts';
import { serveConnections } from '../../../server/connections.ts';
import { API_LIMITS, type ApiLimits } from '../../../server/limits.ts';
import { type Environment, readEnvironment } from '../../../setup/environment.ts';
import { openUploads } from '../../../store/open-uploads.ts';
import type { AccessStore } from '../../../store/access.ts';
import type { Stores } from '../../../store/stores.ts';
import { refuseAccess } from '../access/owner.ts';

export interface TestApi {
  readonly socket: string;
  readonly env: Environment;
  /** Ends all connections; the socket accepts others. */
  cut(): void;
  /** How many connections the socket has accepted. */
  accepted(): number;
  close(): Promise<void>;
}

export interface TestApiOptions {
  readonly stateDir: string;
  readonly stores: Stores;
  readonly limits?: Partial<ApiLimits>;
  readonly machine?: Partial<Machine>;
  readonly sessions?: SessionControl;
  /** Absent: the owner of the socket asks for no tokens. */
  readonly access?: AccessStore;
  readonly hooks?: HookServices;
  readonly schedules?: ScheduleServices;
}

export async function startTestApi({
  stateDir,
  stores,
  limits,
  machine,
  access,
  hooks,
  schedules,
  sessions,
}: TestApiOptions): Promise<TestApi> {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-test-api-'));
  const env = readEnvironment({ VOIDBOX_STATE_DIR: stateDir, VOIDBOX_CACHE_DIR: join(dir, 'cache') });
  const all: ApiLimits = { ...API_LIMITS, ...limits };
  const api = createApi({
    machine: {
      env,
      cwd: '/',
      readStdin: () => Promise.reject(new Error('a request has no standard input')),
      confirm: () => Promise.resolve(null),
      stores: () => Promise.resolve(stores),
      now: () => new Date(),
      stackLink: () => Promise.resolve(null),
      warn: () => Promise.resolve(),
      ...machine,
    },
    uploads: openUploads(env),
    ...(sessions === undefined ? {} : { openSessions: () => Promise.resolve(sessions) }),
    ...(hooks === undefined ? {} : { hooks }),
    ...(schedules === undefined ? {} : { schedules }),
    access: access === undefined ? refuseAccess : () => Promise.resolve(access),
    version: '1.2.3',
    limits: all,
    log: () => undefined,
  });
  const connections = serveConnections({
    fetch: (request, bindings) => api.fetch(request, bindings),
    limits: all,
    onClosed: () => undefined,
    log: () => undefined,
  });
  let accepted = 0;
  const server = createServer({ pauseOnConnect: true }, (socket: Socket) => {
    accepted += 1;
    connections.accept(socket, { listener: 'unix' });
  });
  const socket = join(dir, 'api.sock');
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve));
  return {
    socket,
    env,
    cut: () => connections.close(),
    accepted: () => accepted,
    async close() {
      connections.close();
      await new Promise((resolve) => server.close(resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
