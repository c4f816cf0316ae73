/**
 * A session drops the values of variables that it was handed when it ends. One that was terminated, or whose client died before it
 * was started, does nothing any more: its values are dropped here.
 */
import { textOf, type Log } from '../log.ts';
import { dropVariables, sessionsWithVariables } from '../../store/sessions/variable-files.ts';

const INTERVAL_MS = 20_000;

export interface VariableSweepOptions {
  readonly stateDir: string;
  readonly serverId: string;
  /** Whether the server has a session of that id that has not ended. */
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
  { stateDir, serverId, isOpen, log }: VariableSweepOptions,
  nowMs: number,
): Promise<void> {
  for (const session of sessionsWithVariables(stateDir, serverId, nowMs)) {
    if (await isOpen(session)) continue;
    dropVariables(stateDir, session);
    log('info', `dropped the variables of session ${session}, which has ended`);
  }
}
