import type { RunEventBody } from '../run/event.ts';
import type { Command } from './command.ts';
import type { RunState } from './state.ts';

/** An event to record; the caller adds the time. */
export interface MachineRunEvent {
  readonly id: string;
  readonly body: RunEventBody;
  /** When it happened, in milliseconds since the epoch. Absent: at this transition. */
  readonly atMs?: number;
}

export interface Transition {
  readonly state: RunState;
  readonly commands: readonly Command[];
  readonly events: readonly MachineRunEvent[];
}
