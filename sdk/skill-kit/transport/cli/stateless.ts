/** Calls that leave nothing behind: the client carries the history and hands it in with each answer. */
import { setTimeout as delay } from 'node:timers/promises';
import type { SkillDefinition, StepResult } from '../../../../domain/step-machine/definition.ts';
import { readEntry } from '../../../../domain/step-machine/replay.ts';
import type { CliResult } from '../../../../domain/step-machine/result.ts';
import { advanceSession, createSession, replaySession, type Session, startSession } from '../../drive.ts';
import { handshakeOf } from './flags.ts';
import { failureOf, followsRedirects, warnOn, type Outcome, type SkillCall } from './skill-call.ts';

/** Longer waits need a session, for nothing here remembers when they began. */
const LONGEST_WAIT_MS = 60_000;

export async function startStateless(call: SkillCall): Promise<Outcome> {
  const session = open(call, await call.inputs.json('params'), call.subskill);
  return outcomeOf(call, await waitedFor(session, await startSession(session)));
}

/** @throws {Error} */
export async function advanceStateless(call: SkillCall): Promise<Outcome> {
  const { step } = call.flags.text;
  if (step === undefined) throw new Error('--step is required for advance');
  if (!call.inputs.has('output')) throw new Error('--output is required for advance');
  const [output, history, params] = [await call.inputs.json('output'), await call.inputs.history(), await call.inputs.json('params')];
  const session = open(call, params, call.subskill ?? subskillOf(call.definition, step, history));
  replaySession(session, history, step);
  return outcomeOf(call, await waitedFor(session, await advanceSession(session, { step, output })));
}

function open({ definition, flags, refs, io }: SkillCall, params: unknown, subskill: string | undefined): Session {
  return createSession(definition, {
    params,
    refs,
    handshake: handshakeOf(flags),
    followRedirects: followsRedirects(definition),
    throws: false,
    warn: warnOn(io),
    ...(subskill === undefined ? {} : { subskill }),
  });
}

/**
 * Steps of a sub-skill carry its name also when it was started on its own. Then `--params` are its; they are the dispatcher's
 * when the history shows that the dispatcher led to it.
 */
function subskillOf({ steps, subskills }: SkillDefinition, step: string, history: readonly unknown[]): string | undefined {
  const [name = ''] = step.split('/', 1);
  if (!step.includes('/') || subskills === undefined || !Object.hasOwn(subskills, name)) return undefined;
  if (Object.hasOwn(steps, name) && steps[name]?.config.call !== undefined) return undefined;
  const wasDispatched = history.some((entry) => readEntry(entry)?.step.includes('/') === false);
  return wasDispatched ? undefined : name;
}

/** @throws {Error} for a wait that would take too long */
async function waitedFor(session: Session, first: CliResult): Promise<CliResult> {
  let result = first;
  while (result.kind === 'waiting') {
    const { step, dueMs } = result;
    const waitMs = dueMs - session.runtime.now();
    if (waitMs > LONGEST_WAIT_MS) {
      throw new Error(
        `Step "${step}" waits until ${new Date(dueMs).toISOString()}, and calls without a session forget since when. Start the skill with --session new.`,
      );
    }
    if (waitMs > 0) await delay(waitMs);
    result = joined(result, await advanceSession(session, { step, output: {} }));
  }
  return result;
}

/** Both in one answer, for the client has to append all that was completed to its history. */
function joined(before: CliResult, after: CliResult): CliResult {
  if (after.kind === 'error' || before.kind === 'error') return after;
  const { completed, autoAdvanced: _shown, ...rest } = after;
  const passed: readonly StepResult[] = [...(before.autoAdvanced ?? []), ...(completed === undefined ? [] : [completed]), ...(after.autoAdvanced ?? [])];
  const auto = passed.length === 0 ? {} : { autoAdvanced: passed };
  return { ...rest, ...(before.completed === undefined ? {} : { completed: before.completed }), ...auto };
}

function outcomeOf({ io }: SkillCall, result: CliResult): Outcome {
  const failure = failureOf(result);
  if (result.kind === 'prompt' && result.human?.dueMs !== undefined) {
    io.stderr(
      `warning: nobody measures the deadline of step "${result.step}" (${new Date(result.human.dueMs).toISOString()}): calls without a session forget it. Start the skill with --session new to have it kept.\n`,
    );
  }
  return { stdout: failure === null ? `${JSON.stringify(result)}\n` : '', failure };
}
