/** Runs a skill with a model that the test plays. */
import type { Command } from '../domain/step-machine/command.ts';
import type {
  Handshake,
  ReferenceLoader,
  SkillDefinition,
  StepResult,
  StoreAccessor,
} from '../domain/step-machine/definition.ts';
import { recordsOf } from '../domain/step-machine/records.ts';
import type { SessionResult, DoneResult, PromptResult, RedirectResult } from '../domain/step-machine/result.ts';
import { frameOf } from '../domain/step-machine/state.ts';
import { storeView } from '../domain/step-machine/store-view.ts';
import { listDeclaredVariables, describeMissing, missingOf, valuesOf } from '../domain/step-machine/skill-variables.ts';
import { withVariables } from '../setup/environment.ts';
import { baseVariables, redactionOf } from './drive/skill-environment.ts';
import {
  advanceSession,
  createSession,
  type Session,
  type SessionConfig,
  startSession,
  tickSession,
} from './drive/drive.ts';
import { createMapping } from '../domain/units/mapping.ts';

export interface ModelAdapter {
  /** The answer to a step's prompt; steps of sub-skills are called `sub/step`. */
  respond(stepName: string, prompt: string): unknown;
}

export interface RunSkillOptions {
  readonly params?: unknown;
  readonly model: ModelAdapter;
  readonly host?: Partial<Handshake>;
  /** Default: every reference is an empty text. */
  readonly refs?: ReferenceLoader;
  /** Values of the variables that the skill declares. Its callbacks find these at `process.env`, and those that every program needs. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface SkillRunResult {
  /** Steps in the order in which they were completed, those without a prompt included. */
  readonly path: readonly string[];
  /** The model's last answer by step. */
  readonly outputs: Readonly<Record<string, unknown>>;
  /** The final output. */
  readonly response: unknown;
  readonly history: readonly StepResult[];
  readonly store: StoreAccessor;
}

export interface RunCompositeOptions extends RunSkillOptions {
  /** Starts this sub-skill without the dispatcher; `params` are its. */
  readonly directSubskill?: string;
}

export interface CompositeRunResult {
  readonly path: readonly string[];
  readonly outputs: Readonly<Record<string, unknown>>;
  readonly output: unknown;
  readonly history: readonly StepResult[];
  /** The sub-skill or topic of the run's last redirect; also the one that `directSubskill` named. */
  readonly redirectedTo?: { readonly kind: 'subskill' | 'topic'; readonly name: string };
}

/** The answer of a person who lets the step's deadline pass. */
export const noAnswer: unique symbol = Symbol('noAnswer');

/** Answers by step: a value, a function of the prompt, or an array with one answer for each visit. */
export function mockModel(answers: Readonly<Record<string, unknown>>): ModelAdapter {
  const visits = new Map<string, number>();
  return {
    respond(step, prompt) {
      if (!Object.hasOwn(answers, step)) throw new Error(`mockModel: no entry for step "${step}"`);
      const visit = visits.get(step) ?? 0;
      visits.set(step, visit + 1);
      const answer = answers[step];
      if (typeof answer === 'function') return (answer as (prompt: string) => unknown)(prompt);
      if (!Array.isArray(answer)) return answer;
      if (visit >= answer.length)
        throw new Error(`mockModel: step "${step}" visited ${visit + 1} times but only ${answer.length} entries`);
      return answer[visit] as unknown;
    },
  };
}

/** Until the skill is done. Waits take no time. @throws {Error} for an answer that does not fit, and for a redirect */
export async function runSkill(skill: SkillDefinition, options: RunSkillOptions): Promise<SkillRunResult> {
  const { session, result, outputs } = await run(skill, options, { followRedirects: false });
  if (result.kind !== 'done') throw new Error(`Unexpected result kind "${result.kind}" during run`);
  const history = historyOf(session);
  return {
    path: history.map(({ step }) => step),
    outputs,
    response: result.finalOutput,
    history,
    store: storeView(frameOf(session.state, 0), session.state.records),
  };
}

/** As runSkill, following redirects to sub-skills and topics. */
export async function runComposite(skill: SkillDefinition, options: RunCompositeOptions): Promise<CompositeRunResult> {
  const subskill = options.directSubskill;
  let redirectedTo: CompositeRunResult['redirectedTo'] =
    subskill === undefined ? undefined : { kind: 'subskill', name: subskill };
  const onCommand = (command: Command): void => {
    if (command.type === 'start-child' && !command.returns) redirectedTo = { kind: 'subskill', name: command.subskill };
    if (command.type === 'render-topic') redirectedTo = { kind: 'topic', name: command.topic };
  };
  const { session, result, outputs } = await run(skill, options, {
    onCommand,
    ...(subskill === undefined ? {} : { subskill }),
  });
  if (result.kind !== 'done') throw new Error(`Unexpected result kind "${result.kind}" during run`);
  const history = historyOf(session);
  return {
    path: history.map(({ step }) => step),
    outputs,
    output: result.finalOutput,
    history,
    ...(redirectedTo === undefined ? {} : { redirectedTo }),
  };
}

interface Run {
  readonly session: Session;
  readonly result: DoneResult | RedirectResult;
  readonly outputs: Record<string, unknown>;
}

/** @throws {Error} naming variables that the skill declares and that were not given */
async function run(skill: SkillDefinition, options: RunSkillOptions, config: SessionConfig): Promise<Run> {
  const names = listDeclaredVariables(skill);
  const { env = {} } = options;
  const missing = missingOf(names, env);
  if (missing.length > 0)
    throw new Error(
      `${describeMissing(skill.name, missing)}. Pass \`env\`: { ${missing.map((name) => `${name}: '…'`).join(', ')} }.`,
    );
  const values = valuesOf(names, env);
  return await withVariables({ ...baseVariables(), ...values }, () =>
    runWithin(skill, options, { ...config, redaction: redactionOf(values) }),
  );
}

async function runWithin(
  skill: SkillDefinition,
  { params, model, host, refs }: RunSkillOptions,
  config: SessionConfig,
): Promise<Run> {
  let skippedMs = 0;
  const sleep = async (durationMs: number): Promise<void> => void (skippedMs += durationMs);
  const session = createSession(skill, {
    ...config,
    params,
    handshake: host ?? {},
    refs: refs ?? { load: () => '', asset: (path) => path },
    now: () => Date.now() + skippedMs,
    sleep,
  });
  const outputs: Record<string, unknown> = createMapping();
  let result: SessionResult = await startSession(session);
  for (;;) {
    if (result.kind === 'done' || result.kind === 'redirect')
      // Strict comparisons of a test take two objects for equal only if both have the same prototype.
      return { session, result, outputs: { ...outputs } };
    if (result.kind === 'waiting') {
      skippedMs += Math.max(0, result.dueMs - session.state.nowMs);
      result = await tickSession(session);
    } else if (result.kind === 'error') {
      throw new Error(
        `${result.error === 'validation' ? 'Validation error' : 'Error'} at step "${result.step}": ${result.message}`,
      );
    } else {
      const { step, prompt } = result;
      // The model is the test's, and no code of the skill.
      const output: unknown = await withVariables(null, () => model.respond(step, prompt));
      if (output === noAnswer) {
        skippedMs += measureTimeToExpiry(result, session);
        result = await tickSession(session);
        continue;
      }
      outputs[step] = output;
      result = await advanceSession(session, { step, output });
    }
  }
}

function measureTimeToExpiry({ step, human }: PromptResult, { runtime }: Session): number {
  if (human?.dueMs === undefined)
    throw new Error(`noAnswer: step "${step}" has no deadline; without one, the wait never ends`);
  return Math.max(0, human.dueMs - runtime.now());
}

function historyOf({ state }: Session): readonly StepResult[] {
  return [...recordsOf(state.records)].map(({ step, response, actionResult, result }) => ({
    step,
    response,
    ...(actionResult === undefined ? {} : { actionResult }),
    result,
  }));
}
