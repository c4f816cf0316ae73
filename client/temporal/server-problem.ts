/** Explains why a configured Temporal server does not serve a command, and what to change. */
import type { Environment } from '../../setup/environment.ts';
import { connectRuns, type RunsConnection } from './connect.ts';
import { NoServerError } from './no-server.ts';
import { findAddressFault, reachFault } from './reach-server.ts';
import type { TemporalAddress } from './temporal-address.ts';
import { callStatus, serverMessageOf } from './unavailable.ts';

/** Status codes of gRPC. */
const NOT_FOUND = 5;
const PERMISSION_DENIED = 7;
const UNIMPLEMENTED = 12;
const UNAUTHENTICATED = 16;

const CONNECT_LIMIT_MS = 10_000;
const CALL_LIMIT_MS = 10_000;
/**
 * The time that the SDK gets to connect after a plain connection found a fault, because it may use a proxy that the
 * check does not know.
 */
const SECOND_CHANCE_MS = 2_000;

/**
 * A connection to your own Temporal server, whose namespace exists.
 * @throws NoServerError that names the address or the namespace, what is wrong, and what to change
 */
export async function connectOwnServer(target: TemporalAddress, env: Environment): Promise<RunsConnection> {
  const runs = await reach(target, env);
  try {
    await runs.client.withDeadline(Date.now() + CALL_LIMIT_MS, () =>
      runs.client.workflowService.describeNamespace({ namespace: target.namespace }),
    );
  } catch (error) {
    // A role that may start runs need not be allowed to describe the namespace. A call that it may not make reports
    // that itself.
    if (callStatus(error) === PERMISSION_DENIED) return runs;
    await runs.close();
    throw (
      refusalOf(error, target, env) ??
      toNotTemporalError(error, target, env) ??
      createAwayError(target, env, serverMessageOf(error))
    );
  }
  return runs;
}

async function reach(target: TemporalAddress, env: Environment): Promise<RunsConnection> {
  const unreadable = findAddressFault(target);
  if (unreadable !== null)
    throw new NoServerError(unreadable.message, `${unreadable.remedy}\n${choice(env)}`, unreadable.kind);
  const connecting = connectRuns(target, CONNECT_LIMIT_MS);
  const fault = reachFault(target, env).then(async (found) => {
    if (found === null) return await connecting;
    await Promise.race([connecting.catch(() => undefined), new Promise((done) => setTimeout(done, SECOND_CHANCE_MS))]);
    throw new NoServerError(found.message, `${found.remedy}\n${choice(env)}`, found.kind);
  });
  // The first failure is reported; the other promise may reject later, when no code awaits it.
  connecting.catch(() => undefined);
  fault.catch(() => undefined);
  try {
    return await Promise.race([connecting, fault]);
  } catch (error) {
    if (error instanceof NoServerError) throw error;
    throw refusalOf(error, target, env) ?? createAwayError(target, env, serverMessageOf(error));
  }
}

/** The server answers and refuses: no such namespace, or no permission. Null for any other error. */
export function refusalOf(error: unknown, target: TemporalAddress, env: Environment): NoServerError | null {
  const { address, namespace } = target;
  const status = callStatus(error);
  if (isNamespaceMissing(error, status))
    return new NoServerError(
      `the Temporal server at ${address} has no namespace \`${namespace}\``,
      `Create it: temporal operator namespace create --address ${address} --namespace ${namespace}\n` +
        `Or name another one: export TEMPORAL_NAMESPACE=…\n${choice(env)}`,
      'refused',
    );
  if (status !== PERMISSION_DENIED && status !== UNAUTHENTICATED) return null;
  const key = target.apiKey === undefined ? 'no API key was sent' : 'an API key was sent';
  return new NoServerError(
    `the Temporal server at ${address} refuses calls to namespace \`${namespace}\`: ${serverMessageOf(error)} (${key})`,
    `${target.apiKey === undefined ? 'Give the key: export TEMPORAL_API_KEY=…' : 'Check TEMPORAL_API_KEY: it may be wrong, expired, or for another namespace'}\n${choice(env)}`,
    'refused',
  );
}

/** The server does not know the call, so it is another program, or a proxy that does not forward gRPC. */
function toNotTemporalError(error: unknown, target: TemporalAddress, env: Environment): NoServerError | null {
  if (callStatus(error) !== UNIMPLEMENTED) return null;
  return new NoServerError(
    `what answers at ${target.address} is not a Temporal server: ${serverMessageOf(error)}`,
    `Name the server's gRPC port, not that of its UI: export TEMPORAL_ADDRESS=HOST:PORT\n${choice(env)}`,
    'refused',
  );
}

function createAwayError(target: TemporalAddress, env: Environment, words: string): NoServerError {
  return new NoServerError(
    `the Temporal server at ${target.address} does not answer: ${words}`,
    `Check the address and the server.\n${choice(env)}`,
  );
}

/**
 * Whether the namespace is missing. The SDK has an error class for calls that it knows; for other calls, check the
 * message.
 */
function isNamespaceMissing(error: unknown, status: number | null): boolean {
  if (error instanceof Error && error.name === 'NamespaceNotFoundError') return true;
  return status === NOT_FOUND && /\bNamespace .* is not found/.test(serverMessageOf(error));
}

/** Which variables name the server, and how to do without. */
function choice({ temporalVariables }: Environment): string {
  const names = temporalVariables.join(', ');
  return `This server is named by ${names}; unset ${temporalVariables.length === 1 ? 'it' : 'them'} to use the embedded server.`;
}
