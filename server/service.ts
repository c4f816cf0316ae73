/** Everything of a process that serves the HTTP API, except the way in which it gets its connections. */
import type { HttpBindings } from '@hono/node-server';
import type { ReadClientUrl } from '../app/approval-links/approval-links.ts';
import { type AccessOpener, createAccessOpener } from '../app/access/access-opener.ts';
import { startTriggerService } from '../app/deliveries/trigger-service.ts';
import { hasTokenDatabase } from '../client/embedded/token-database.ts';
import { CodedError } from '../domain/errors/coded-error.ts';
import type { Machine } from '../app/machine.ts';
import type { Environment } from '../setup/environment.ts';
import { readVersion } from '../setup/package-version.ts';
import type { FoundToken } from '../store/access.ts';
import { openSessionMessages } from '../store/open-messages.ts';
import { openUploads } from '../store/open-uploads.ts';
import { createApi } from './api.ts';
import { type Connections, serveConnections } from './connections.ts';
import { API_LIMITS } from './limits.ts';
import type { ListenerKind } from './listener.ts';
import { createApiMachine } from './machine.ts';

/** How often uploads without a use are searched. */
const SWEEP_EVERY_MS = 60 * 60_000;

export interface ServiceOptions {
  readonly env: Environment;
  /** Returns the folder whose specs a token may start by their path; null: no folder. */
  readonly readSpecRoot: () => string | null;
  /** Returns the URL under which people open pages of the service. */
  readonly readClientUrl: ReadClientUrl;
  /** The token that is in no database; null: no such token. */
  readonly daemon: FoundToken | null;
  /** Called when a connection has ended. */
  readonly onClosed: (listener: ListenerKind) => void;
  readonly log: (line: string) => void;
}

export interface Service {
  readonly connections: Connections;
  /** Ends every connection, and closes what the service has opened. */
  close(): Promise<void>;
}

/** @throws CodedError `host/state-format` for a state folder of another format, which no request could use */
export async function openService({
  env,
  readSpecRoot,
  readClientUrl,
  daemon,
  onClosed,
  log,
}: ServiceOptions): Promise<Service> {
  const machine: Machine = {
    ...createApiMachine(env, log),
    readDeploymentSecrets: async (...asked) => await triggers.readSecretValues(...asked),
  };
  const stores = await machine.stores();
  // The embedded database belongs to the embedded stack.
  const hasDatabase = (): boolean =>
    env.database !== null || (!env.temporalConfigured && hasTokenDatabase(env.stateDir));
  const access = openTokens(env, { hasDatabase, log });
  const triggers = startTriggerService({ env, machine, access: access.open, readClientUrl, hasDatabase, log });
  const uploads = openUploads(env);
  const messages = openSessionMessages(env);
  const sweep = (): void => {
    uploads.sweep().catch((error: Error) => log(`uploads: ${error.message}`));
    messages.sweep(Date.now()).catch((error: Error) => log(`messages: ${error.message}`));
  };
  sweep();
  const timer = setInterval(sweep, SWEEP_EVERY_MS).unref();
  const api = createApi({
    machine,
    uploads,
    messages,
    readSpecRoot,
    readClientUrl,
    daemon,
    access: access.open,
    hooks: triggers.hooks,
    schedules: triggers.schedules,
    evaluate: triggers.evaluate,
    readSecretValues: triggers.readSecretValues,
    wakeNotifications: triggers.wakeNotifications,
    deploying: triggers.deploying,
    listQueueStates: triggers.listQueueStates,
    onDeployed: triggers.onDeployed,
    version: readVersion(),
    limits: API_LIMITS,
    log,
  });
  const connections = serveConnections({
    fetch: (request: Request, bindings: HttpBindings) => api.fetch(request, bindings),
    limits: API_LIMITS,
    onClosed,
    log,
  });
  return {
    connections,
    async close() {
      clearInterval(timer);
      connections.close();
      // Its work uses the stores.
      await triggers.close();
      await Promise.all([stores.close(), access.close()]);
    },
  };
}

function openTokens(
  env: Environment,
  { hasDatabase, log }: { readonly hasDatabase: () => boolean; readonly log: (line: string) => void },
): AccessOpener {
  return createAccessOpener({
    hasDatabase,
    openStore: async (use) => {
      if (env.temporalConfigured && env.database === null)
        throw new CodedError(
          'api/access-unavailable',
          'with your own Temporal server, tokens need a database of your own: set DATABASE_URL',
        );
      // Requests of the owner need no tokens, so most processes of the API load none of it.
      const { openAccessStore } = await import('../app/access/open-access-store.ts');
      return await openAccessStore(env, { install: use === 'make', onProgress: log, warn: log });
    },
  });
}
