import type { Client } from '@temporalio/client';
import { connectRuns, type RunsConnection } from './connect.ts';
import { ensureStack, readStack, type StackInfo } from '../embedded/stack.ts';
import { isMarkedStopped, StackStoppedError } from '../embedded/stop-mark.ts';
import { NoServerError } from './no-server.ts';
import { connectOwnServer } from './server-problem.ts';
import { readConfiguredAddress, createEmbeddedAddress, type TemporalAddress } from './temporal-address.ts';
import type { Environment } from '../../setup/environment.ts';

/**
 * The connection to the Temporal server of the runs: your own by `TEMPORAL_*`, else the embedded stack. It outlives the
 * death of the embedded stack, because `tend` starts the stack again and reconnects.
 *
 * Connections stay open until the process ends: the SDK throws outside of any call if a closed one has a call to retry.
 */
export interface ServerLink {
  readonly isEmbedded: boolean;
  /** Address to name in messages. */
  address(): string;
  /** Page of a run in the Temporal UI; null when the server's UI is not known. */
  runUrl(runId: string): string | null;
  client(): Client;
  /** Makes a call that gives up within seconds: after the stack's death the old address never answers. */
  briefly<T>(call: (client: Client) => Promise<T>): Promise<T>;
  /**
   * Brings the embedded stack up again if it has died; does nothing on your own server.
   * @throws StackStoppedError when it was stopped by `voidbox down` and `afterDown` is `stay`
   */
  tend(afterDown: 'start' | 'stay'): Promise<void>;
}

/** The part of a command's context that a connection to the server needs. */
export interface LinkContext {
  readonly env: Environment;
}

const BRIEF_MS = 5_000;
const CONNECT_ATTEMPTS = 3;
const EMBEDDED_REMEDY =
  'It restarts automatically: run the command again. Check it: voidbox ps. Restart it: voidbox down, then voidbox up';

export interface LinkOptions {
  /** Whether the embedded stack is started when it is not running. */
  readonly start: boolean;
  readonly onProgress?: (line: string) => void;
}

/**
 * @returns null when the embedded stack is not running and `start` is false
 * @throws NoServerError when the server does not answer, SetupError when the stack lacks a piece
 */
export async function openServerLink(context: LinkContext, options: LinkOptions): Promise<ServerLink | null> {
  const configured = readConfiguredAddress(context.env);
  if (configured !== null) return await linkToOwnServer(configured, context);
  const stack = options.start ? await startStack(context, options.onProgress) : await readStack(context.env);
  return stack === null ? null : await linkToStack(stack, context, options);
}

async function linkToOwnServer(target: TemporalAddress, context: LinkContext): Promise<ServerLink> {
  const connection = await connectOwnServer(target, context.env);
  const ui = context.env.variables['TEMPORAL_UI_URL'] ?? null;
  return {
    isEmbedded: false,
    address: () => target.address,
    runUrl: (runId) => (ui === null ? null : runPage(ui, target.namespace, runId)),
    client: () => connection.client,
    briefly: (call) => withDeadline(connection.client, call),
    tend: () => Promise.resolve(),
  };
}

async function linkToStack(first: StackInfo, context: LinkContext, options: LinkOptions): Promise<ServerLink> {
  const { onProgress } = options;
  let { stack, connection } = await connectToStack(first, context, options);
  return {
    isEmbedded: true,
    address: () => stack.address,
    runUrl: (runId) => runPage(stack.uiUrl, stack.namespace, runId),
    client: () => connection.client,
    briefly: (call) => withDeadline(connection.client, call),
    async tend(afterDown) {
      const running = await readStack(context.env);
      if (running === null && afterDown === 'stay' && isMarkedStopped(context.env.stateDir))
        throw new StackStoppedError();
      const now = running ?? (await startStack(context, onProgress));
      if (now.address === stack.address) return;
      connection = await connect(createEmbeddedAddress(now.address, now.namespace), EMBEDDED_REMEDY);
      stack = now;
    },
  };
}

/**
 * Connects again if the stack ends between two steps: another build may take it away, or it dies, and a new one starts.
 */
async function connectToStack(
  first: StackInfo,
  context: LinkContext,
  options: LinkOptions,
): Promise<{ readonly stack: StackInfo; readonly connection: RunsConnection }> {
  let stack = first;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return {
        stack,
        connection: await connect(createEmbeddedAddress(stack.address, stack.namespace), EMBEDDED_REMEDY),
      };
    } catch (error) {
      const now =
        attempt < CONNECT_ATTEMPTS
          ? ((await readStack(context.env)) ?? (options.start ? await startStack(context, options.onProgress) : null))
          : null;
      if (now === null) throw error;
      stack = now;
    }
  }
}

function withDeadline<T>(client: Client, call: (client: Client) => Promise<T>): Promise<T> {
  return client.withDeadline(Date.now() + BRIEF_MS, () => call(client));
}

async function startStack(context: LinkContext, onProgress: LinkOptions['onProgress']): Promise<StackInfo> {
  return await ensureStack(context.env, onProgress === undefined ? {} : { onProgress });
}

async function connect(target: TemporalAddress, remedy: string): Promise<RunsConnection> {
  try {
    return await connectRuns(target);
  } catch (error) {
    throw new NoServerError(
      `the Temporal server at ${target.address} does not answer: ${(error as Error).message}`,
      remedy,
    );
  }
}

function runPage(ui: string, namespace: string, runId: string): string {
  return `${ui.replace(/\/$/, '')}/namespaces/${encodeURIComponent(namespace)}/workflows/${encodeURIComponent(runId)}`;
}
