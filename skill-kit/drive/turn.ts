/** One event of a session whose state is kept elsewhere: all that callbacks decide at once, as events to be recorded. */
import type { Command } from '../../domain/step-machine/command.ts';
import type { SkillDefinition } from '../../domain/step-machine/definition.ts';
import type { SessionEvent, SessionEventBody } from '../../domain/step-machine/event.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { createRuntime, type RuntimeOptions } from './runtime.ts';
import { Session } from './drive.ts';
import { createMapping } from '../../domain/units/mapping.ts';

export interface Turn {
  /** The owner of the state feeds these to `transition` in order, and reaches the state of this turn. */
  readonly events: readonly SessionEvent[];
  readonly state: SessionState;
  /** Commands that take time and are not carried out here; an event must answer each. */
  readonly deferred: readonly Command[];
  /** By the ids of the requests that got their answer. */
  readonly replies: Readonly<Record<string, SessionResult>>;
}

/**
 * Observers have heard everything when this is over. Nothing that a callback throws is thrown: it is an event, and a reply.
 * @param options  `defer`: by default actions, timers and sub-skills that come back
 */
export async function runTurn(
  definition: SkillDefinition,
  state: SessionState,
  event: SessionEventBody,
  options: RuntimeOptions = {},
): Promise<Turn> {
  const events: SessionEvent[] = [];
  const deferred: Command[] = [];
  const replies: Record<string, SessionResult> = createMapping();
  const runtime = createRuntime(definition, {
    defer: takesTime,
    ...options,
    onEvent: (heard) => void events.push(heard),
    onDeferred: (command) => void deferred.push(command),
    onCommand: (command) => {
      if (command.type === 'reply') replies[command.request] = command.result;
    },
  });
  const session = new Session(runtime, state, false);
  session.feed(event);
  await session.idle();
  return { events, state: session.state, deferred, replies };
}

function takesTime(command: Command): boolean {
  return (
    command.type === 'run-action' || command.type === 'wait' || (command.type === 'start-child' && command.returns)
  );
}
