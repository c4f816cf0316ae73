/** Calls that leave nothing behind: the client carries the history and hands it in with each answer. */
import { setTimeout as delay } from 'node:timers/promises';
import type { SkillDefinition, StepResult } from '../../domain/step-machine/definition.ts';
import { readEntry } from '../../domain/step-machine/replay.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import {
  advanceSession,
  createSession,
  placeSession,
  replayHistory,
  resumeSession,
  type Session,
  startSession,
} from '../drive/drive.ts';
import { handshakeOf } from './flags.ts';
import { type Checkpoint, type History, NO_HISTORY, readHistory } from './history.ts';
import type { Source } from './inputs.ts';
import { codeHashOf, failureOf, followsRedirects, createWarn, type Outcome, type SkillCall } from './skill-call.ts';

/** Longer waits need a session, for nothing here remembers when they began. */
const LONGEST_WAIT_MS = 60_000;

export async function startStateless(call: SkillCall): Promise<Outcome> {
  const session = open(call, await call.inputs.json('params'), call.subskill);
  return outcomeOf(call, await waitWhileWaiting(session, await startSession(session)));
}

/** @throws {Error} */
export async function advanceStateless(call: SkillCall): Promise<Outcome> {
  const { step } = call.flags.text;
  if (step === undefined) throw new Error('--step is required for advance');
  if (!call.inputs.has('output')) throw new Error('--output is required for advance');
  const [output, source, params] = [
    await call.inputs.json('output'),
    await call.inputs.history(),
    await call.inputs.json('params'),
  ];
  const history = source === null ? NO_HISTORY : readHistory(source, checkpointIdentity(call, source, step, params));
  const session = resumeHistory(
    call,
    params,
    call.subskill ?? subskillOf(call.definition, step, history.entries),
    history,
  );
  replayHistory(session, history.entries);
  const checkpoint = history.checkpoint(session.state);
  placeSession(session, step);
  const split = splitNotPassed(call.definition, session, step);
  if (split !== null) {
    const remedy = 'Append autoAdvanced of every reply to the history as well';
    createWarn(call.io)(
      `step "${step}" is answered on its own, because the history does not show its parallel step "${split}". ${remedy}.`,
    );
  }
  const result = await waitWhileWaiting(session, await advanceSession(session, { step, output }));
  return outcomeOf(call, checkpoint === null ? result : withCheckpoint(result, checkpoint));
}

/**
 * Null if there are no checkpoints. Arguments are too short for long histories, and a model often writes them. Steps
 * below sub-skills have names that do not identify them.
 */
function checkpointIdentity(
  { definition: { name, version }, subskill, io }: SkillCall,
  { isInline }: Source,
  step: string,
  params: unknown,
): string | null {
  if (isInline || subskill !== undefined || step.includes('/')) return null;
  return JSON.stringify([name, version, codeHashOf(io), params ?? null]);
}

/** The client appends it with the record that it appends anyway. */
function withCheckpoint(result: SessionResult, checkpoint: Checkpoint): SessionResult {
  if (result.kind !== 'prompt' || result.completed === undefined) return result;
  return { ...result, completed: { ...result.completed, checkpoint } as StepResult };
}

function resumeHistory(
  call: SkillCall,
  params: unknown,
  subskill: string | undefined,
  { base, older }: History,
): Session {
  const session = open(call, params, subskill);
  if (base === null) return session;
  const { state, runtime } = session;
  const { stores, visits, entries } = base;
  const last = Object.fromEntries(Object.entries(base.last).map(([step, result]) => [step, Object.freeze(result)]));
  const records = { ...state.records, flushed: entries };
  return resumeSession(
    runtime.definition,
    { ...state, turn: entries, frames: [{ ...state.frames[0]!, stores, visits, last }], records },
    {
      ...runtime,
      olderRecords: older,
      throws: false,
    },
  );
}

function open({ definition, flags, refs, io }: SkillCall, params: unknown, subskill: string | undefined): Session {
  return createSession(definition, {
    params,
    refs,
    handshake: handshakeOf(flags),
    followRedirects: followsRedirects(definition),
    throws: false,
    warn: createWarn(io),
    ...(subskill === undefined ? {} : { subskill }),
  });
}

/**
 * Steps of a sub-skill carry its name also when it was started on its own. Then `--params` are its; they are the dispatcher's
 * when the history shows that the dispatcher led to it.
 */
function subskillOf(
  { steps, subskills }: SkillDefinition,
  step: string,
  history: readonly unknown[],
): string | undefined {
  const [name = ''] = step.split('/', 1);
  if (!step.includes('/') || subskills === undefined || !Object.hasOwn(subskills, name)) return undefined;
  if (Object.hasOwn(steps, name) && steps[name]?.config.call !== undefined) return undefined;
  const wasDispatched = history.some((entry) => readEntry(entry)?.step.includes('/') === false);
  return wasDispatched ? undefined : name;
}

/** Returns the parallel step that has `step` as a branch; null if a group is open or `step` is not a branch. */
function splitNotPassed({ steps }: SkillDefinition, { state }: Session, step: string): string | null {
  if (state.groups.length > 0) return null;
  return Object.entries(steps).find(([, { config }]) => config.parallel?.branches.includes(step))?.[0] ?? null;
}

/** @throws {Error} for a wait that would take too long */
async function waitWhileWaiting(session: Session, first: SessionResult): Promise<SessionResult> {
  let result = first;
  while (result.kind === 'waiting') {
    const { step, dueMs } = result;
    const waitMs = dueMs - session.runtime.now();
    if (waitMs > LONGEST_WAIT_MS) {
      throw new Error(
        `Step "${step}" waits until ${new Date(dueMs).toISOString()}, and calls without a session do not know since when. Start the skill with --session new.`,
      );
    }
    if (waitMs > 0) await delay(waitMs);
    result = joinResults(result, await advanceSession(session, { step, output: {} }));
  }
  return result;
}

/** Both in one answer, for the client has to append all that was completed to its history. */
function joinResults(before: SessionResult, after: SessionResult): SessionResult {
  if (after.kind === 'error' || before.kind === 'error') return after;
  const { completed, autoAdvanced: _shown, ...rest } = after;
  const passed: readonly StepResult[] = [
    ...(before.autoAdvanced ?? []),
    ...(completed === undefined ? [] : [completed]),
    ...(after.autoAdvanced ?? []),
  ];
  const auto = passed.length === 0 ? {} : { autoAdvanced: passed };
  return { ...rest, ...(before.completed === undefined ? {} : { completed: before.completed }), ...auto };
}

function outcomeOf({ io }: SkillCall, result: SessionResult): Outcome {
  const failure = failureOf(result);
  if (result.kind === 'prompt' && result.human?.dueMs !== undefined) {
    io.stderr(
      `warning: nothing measures the deadline of step "${result.step}" (${new Date(result.human.dueMs).toISOString()}): calls without a session forget it. Start the skill with --session new to have it kept.\n`,
    );
  }
  return { stdout: failure === null ? `${JSON.stringify(result)}\n` : '', failure };
}
