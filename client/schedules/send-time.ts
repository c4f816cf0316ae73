/** Hands a time of a schedule to the service of a state folder, over the Unix socket of its owner. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { ServiceClient } from '../../http/service-client.ts';
import { openApiSocket } from '../embedded/api-socket.ts';

/** Shorter than the limit of the activity. The first answer waits until the service and its database have started. */
const ANSWER_MS = 100_000;

export interface FiredTime {
  readonly owner: string;
  readonly deployment: string;
  readonly trigger: string;
  readonly atMs: number;
  readonly firedAtMs: number;
  readonly firing: string;
}

/** @throws CodedError `host/no-service`, also if the service belongs to another database */
export async function sendTime(
  stateDir: string,
  { deployment, trigger, ...body }: FiredTime,
  signal: AbortSignal,
): Promise<void> {
  const socket = openApiSocket(stateDir);
  if (socket === null) throw createAwayError('the state folder has no socket `api.sock`');
  const place = { kind: 'unix', path: socket.path } as const;
  const client = new ServiceClient({ name: 'the service of this host', place, token: null, ca: null });
  try {
    const path = ['deployments', deployment, 'schedules', trigger, 'times'];
    await client.change({ path, body: { json: body }, answerMs: ANSWER_MS, signal });
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw createAwayError((error as Error).message);
  } finally {
    client.close();
    socket.close();
  }
}

function createAwayError(problem: string): CodedError {
  return new CodedError('host/no-service', `the service did not get the time of a schedule: ${problem}`);
}
