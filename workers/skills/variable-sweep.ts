/**
 * Drops the variables of sessions that cannot drop them. A session drops its own when it ends. A session that was
 * terminated, or whose client died before the start, no longer runs.
 */
import type { SessionVariables } from '../../activities/ports/session-stores.ts';
import { textOf, type Log } from '../log.ts';

const INTERVAL_MS = 20_000;

export interface VariableSweepOptions {
  readonly variables: SessionVariables;
  readonly serverId: string;
  /** Whether the server has an open session with that id. */
  readonly isOpen: (session: string) => Promise<boolean>;
  readonly log: Log;
}

/** Asks the server for nothing while no session was handed any. @returns how to stop it */
export function startVariableSweep(options: VariableSweepOptions): () => void {
  let busy = false;
  const round = (): void => {
    if (busy) return;
    busy = true;
    sweepVariables(options, Date.now())
      .catch((error: unknown) => options.log('warning', `variables of sessions: ${textOf(error)}`))
      .finally(() => (busy = false));
  };
  round();
  const timer = setInterval(round, INTERVAL_MS);
  return () => clearInterval(timer);
}

export async function sweepVariables(
  { variables, serverId, isOpen, log }: VariableSweepOptions,
  nowMs: number,
): Promise<void> {
  for (const session of await variables.holders(serverId, nowMs)) {
    if (await isOpen(session)) continue;
    await variables.drop(session);
    log('info', `dropped the variables of session ${session}, which has ended`);
  }
}
