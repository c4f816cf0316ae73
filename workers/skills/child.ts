/** A skill's own process: `node child.js BUNDLE CODE_HASH WORKER_PID`. One request at a time; ends when its worker does. */
import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Observation, TurnOutcome } from '../../activities/contract-session.ts';
import { problemOfAction } from '../../domain/step-machine/check-state.ts';
import type { Command } from '../../domain/step-machine/command.ts';
import type {
  Handshake,
  MigrationConfig,
  ReferenceLoader,
  SkillDefinition,
} from '../../domain/step-machine/definition.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import { factsOf } from '../../domain/step-machine/facts.ts';
import { EMPTY_LOG, type StepRecord } from '../../domain/step-machine/records.ts';
import { canResume, migrate } from '../../domain/step-machine/resume.ts';
import { listDeclaredVariables, isBaseVariable } from '../../domain/step-machine/skill-variables.ts';
import { MOST_STATE_BYTES, findSizeProblem } from '../../domain/step-machine/size-limits.ts';
import type { SessionState } from '../../domain/step-machine/state.ts';
import { execute, definitionAt, Place, validParams } from '../../skill-kit/drive/callbacks.ts';
import { errorFacts, runAction } from '../../skill-kit/drive/action.ts';
import { createRuntime, type RuntimeOptions, type SkillRuntime } from '../../skill-kit/drive/runtime.ts';
import { withOlderPath } from '../../skill-kit/drive/observers.ts';
import { runTurn } from '../../skill-kit/drive/turn.ts';
import { type Redaction, redactionOf } from '../../skill-kit/drive/skill-environment.ts';
import { grantVariables, withdrawVariables } from '../../setup/environment.ts';
import { receiveOffers } from '../../skill-kit/worker-handoff.ts';
import {
  ANSWER_FD,
  type AbortRequest,
  type ChildAnswer,
  type ChildRequest,
  type FailedCode,
  type OpenAnswer,
  type TurnAnswer,
} from './protocol.ts';
import { openSessionFolder, type SessionFolder } from '../../store/open-session-stores.ts';

/** Shorter than the heartbeat timeout, after which another worker calls observers of unrecorded events again. */
const OBSERVER_GRACE_MS = 5_000;

type StartChild = Extract<Command, { readonly type: 'start-child' }>;
type Calls = Extract<TurnOutcome, { readonly kind: 'done' }>['calls'];
type Of<T extends ChildRequest['op']> = Extract<ChildRequest, { readonly op: T }>;

class RequestError extends Error {
  readonly code: FailedCode;
  constructor(code: RequestError['code'], message: string) {
    super(message);
    this.code = code;
  }
}

const [bundle = '', codeHash = '', workerPid = ''] = process.argv.slice(2);
const answers = createWriteStream('', { fd: ANSWER_FD });
let acting: AbortController | null = null;
let observing: Promise<void> = Promise.resolve();

function sendAnswer(answer: ChildAnswer): void {
  answers.write(`${JSON.stringify(answer)}\n`);
}

async function load(): Promise<SkillDefinition> {
  let offered: unknown;
  receiveOffers((definition) => (offered ??= definition));
  const loaded = (await import(pathToFileURL(bundle).href)) as { readonly default?: unknown };
  // A built program also has a default export, but its author did not write it.
  const found = [loaded.default, offered].find(isSkill);
  if (found === undefined) {
    const how =
      'write `export default skill({ … }).step(…).build();`, or hand the skill to `main` of voidbox/skill-kit/cli';
    throw new RequestError('skill/unusable', `the default export is not a built skill: ${how}`);
  }
  return found;
}

function isSkill(value: unknown): value is SkillDefinition {
  return (
    typeof value === 'object' &&
    value !== null &&
    'kind' in value &&
    value.kind === 'skill' &&
    'steps' in value &&
    value.steps !== undefined
  );
}

/** Redacts the values of the current request. */
let redaction: Redaction = redactionOf({});

function optionsOf(handshake: Partial<Handshake>, state?: SessionState, recordsDir?: string): RuntimeOptions {
  const ref = state?.records.flushedRef ?? null;
  const olderRecords = (): readonly StepRecord[] =>
    ref === null || recordsDir === undefined ? [] : openSessionFolder(recordsDir).readRecords(ref);
  return { codeHash, handshake, refs: references, olderRecords, redaction };
}

/** Files that were copied with the bundle. */
const references: ReferenceLoader = {
  load: (filename) => readFileSync(resolveInside('references', filename), 'utf8'),
  asset: (path) => resolveInside('.', path),
};

function resolveInside(folder: string, name: string): string {
  const base = resolve(dirname(bundle), folder);
  const file = resolve(base, name);
  if (!file.startsWith(base + sep)) throw new Error(`"${name}" leads out of the skill's folder`);
  if (!existsSync(file))
    throw new Error(
      `"${join(folder, name)}" is not in the skill's folder; files are copied from its \`references\` when it is loaded`,
    );
  return file;
}

function open(root: SkillDefinition, { path, params, checked, subskill }: Of<'open'>): OpenAnswer {
  const definition = definitionAt(root, path);
  const { subskills = {} } = definition;
  if (subskill !== undefined && !Object.hasOwn(subskills, subskill))
    throw new RequestError(
      'skill/params',
      `skill "${definition.name}" has no sub-skill "${subskill}"; it has: ${Object.keys(subskills).join(', ') || 'none'}`,
    );
  const started = subskill === undefined ? definition : subskills[subskill]!.definition;
  try {
    createRuntime(definition, { codeHash });
  } catch (error) {
    throw new RequestError('skill/unusable', (error as Error).message);
  }
  const valid = checked ? params : checkParams(started, params);
  const large = findSizeProblem('its params have', valid);
  if (large !== null) throw new RequestError('skill/params', large);
  return { facts: factsOf(definition, codeHash), params: valid, observers: observersOf(definition, []) };
}

function checkParams(definition: SkillDefinition, params: unknown): unknown {
  try {
    return validParams(definition, params);
  } catch (error) {
    throw new RequestError('skill/params', (error as Error).message);
  }
}

function observersOf(definition: SkillDefinition, path: readonly string[]): string[] {
  const own = Object.entries(definition.observers ?? {}).flatMap(([name, handler]) =>
    handler === undefined ? [] : [`${path.join('/')}:${name}`],
  );
  return [
    ...own,
    ...Object.entries(definition.subskills ?? {}).flatMap(([name, sub]) =>
      observersOf(sub.definition, [...path, name]),
    ),
  ];
}

async function turn(root: SkillDefinition, request: Of<'turn'>): Promise<TurnAnswer> {
  const definition = definitionAt(root, request.path);
  const options = optionsOf(request.handshake, request.state, request.recordsDir);
  const runtime = createRuntime(definition, options);
  const resumption = canResume(runtime.facts, definition.migrations ?? [], request.state);
  if (resumption.kind === 'refused') return { outcome: { kind: 'refused', message: resumption.message } };
  const state =
    resumption.kind === 'same' ? request.state : migrate(runtime.facts, request.state, resumption.migration);
  const event = resumption.kind === 'same' ? request.event : renameStep(request.event, resumption.migration);
  const called: StartChild[] = [];
  const done = await runTurn(definition, state, event, {
    ...options,
    defer: (command) => {
      if (command.type === 'start-child' && command.returns) called.push(command);
      return isElsewhere(command);
    },
  });
  const calls = called.map((command) => paramsOf(runtime, done.state, command));
  const [first, ...events] = done.events;
  checkSize([events, calls], done.state);
  const outcome = { kind: 'done' as const, atMs: first!.atMs, events, calls };
  if (resumption.kind === 'same') return { outcome };
  return {
    outcome,
    migrated: { open: open(root, { op: 'open', path: request.path, params: null, checked: true }), state, event },
  };
}

/** A client that answers knows the step by the name that it had in the prompt. */
function renameStep(event: SessionEventBody, { renamedSteps = {} }: MigrationConfig): SessionEventBody {
  if (event.type !== 'advance' || !Object.hasOwn(renamedSteps, event.step)) return event;
  return { ...event, step: renamedSteps[event.step]! };
}

function isElsewhere(command: Command): boolean {
  return (
    command.type === 'run-action' ||
    command.type === 'wait' ||
    command.type === 'emit' ||
    (command.type === 'start-child' && command.returns)
  );
}

function paramsOf(runtime: SkillRuntime, state: SessionState, command: StartChild): Calls[number] {
  const { cursor } = command;
  try {
    const ready = execute(runtime, state, command);
    return { cursor, params: ready.type === 'child-ready' ? redaction.value(ready.params) : {} };
  } catch (error) {
    return { cursor, error: redaction.value(errorFacts(error)) };
  }
}

/** @param added  what becomes part of the session: events, params of sub-skills */
function checkSize(added: unknown, state: SessionState): void {
  const large =
    findSizeProblem('this turn adds', added) ??
    findSizeProblem('the session carries', { ...state, records: EMPTY_LOG }, MOST_STATE_BYTES);
  if (large !== null) throw new Error(large);
}

async function act(
  root: SkillDefinition,
  { path, state, command, handshake, recordsDir }: Of<'act'>,
): Promise<SessionEventBody> {
  const runtime = createRuntime(definitionAt(root, path), optionsOf(handshake, state, recordsDir));
  const problem = problemOfAction(runtime.facts, state, command);
  if (problem !== null) throw new RequestError('session/foreign', `session "${state.session}": ${problem}`);
  acting = new AbortController();
  try {
    const { event, left } = await runAction(new Place(runtime, state, command), command, acting);
    // A process handles one request at a time. If an action ignores its signal, the worker that waits here ends the
    // process.
    await left;
    const large = findSizeProblem('what the action gave has', event);
    if (large === null) return redaction.value(event);
    const { cursor, attempt } = command;
    return {
      type: 'action-ended',
      cursor,
      attempt,
      ok: false,
      error: { name: 'Error', message: large },
      retryable: false,
      timedOut: false,
    };
  } finally {
    acting = null;
  }
}

/**
 * The process that calls an observer also records that: the worker may die in between, and no observer is called twice.
 */
async function observe(root: SkillDefinition, { path, event, recordsDir }: Of<'observe'>): Promise<void> {
  const folder = openSessionFolder(recordsDir);
  if (event.number <= folder.lastObserved()) return;
  const { observers } = definitionAt(root, [...path, ...event.skill]);
  const isThere = observers !== undefined && Object.hasOwn(observers, event.observer);
  const handler = (isThere ? observers[event.observer] : undefined) as ((payload: unknown) => unknown) | undefined;
  // An error of an observer goes only to the log, for its author.
  try {
    await handler?.call(observers, payloadOf(event, folder));
  } catch (error) {
    process.stderr.write(redaction.text(`observer ${event.observer}: ${errorFacts(error).message}\n`));
  }
  folder.noteObserved(event.number);
}

function payloadOf({ payload, older }: Observation, folder: SessionFolder): Observation['payload'] {
  return older === undefined ? payload : withOlderPath(payload, older.frame, folder.readRecords(older.ref));
}

/** The code sees the variables of this request while it works for it, and no longer: the next one may be another session's. */
async function answer(root: SkillDefinition, request: ChildRequest): Promise<unknown> {
  if (request.op === 'open') return open(root, request);
  const { variables } = request;
  grantVariables(variables);
  redaction = redactionOf(variables);
  try {
    return await executeRequest(root, request);
  } catch (error) {
    throw redactError(error);
  } finally {
    withdrawVariables(Object.keys(variables).filter((name) => !isBaseVariable(name)));
  }
}

function redactError(error: unknown): unknown {
  const { message } = errorFacts(error);
  const text = redaction.text(message);
  if (text === message) return error;
  return error instanceof RequestError ? new RequestError(error.code, text) : new Error(text);
}

async function executeRequest(
  root: SkillDefinition,
  request: Exclude<ChildRequest, { readonly op: 'open' }>,
): Promise<unknown> {
  switch (request.op) {
    case 'turn':
      return await turn(root, request);
    case 'act':
      return await act(root, request);
    case 'observe':
      observing = observe(root, request);
      return await observing;
  }
}

function createFailedAnswer(error: unknown): ChildAnswer {
  const { message } = errorFacts(error);
  return error instanceof RequestError ? { failed: message, code: error.code } : { failed: message };
}

/**
 * Watches for the worker's end in a thread of its own: a callback that loops blocks the main thread, and no other
 * process would end it.
 */
function endWithWorker(): void {
  const code = `const { workerData } = require('node:worker_threads');
let left = workerData.graceMs;
setInterval(() => {
  if (process.ppid === workerData.pid) return;
  left -= 500;
  if (left <= 0) process.kill(process.pid, 'SIGKILL');
}, 500);`;
  new Worker(code, { eval: true, workerData: { pid: Number(workerPid), graceMs: OBSERVER_GRACE_MS } }).unref();
}

try {
  endWithWorker();
  const root = await load();
  sendAnswer({ hello: { name: root.name, version: root.version, env: listDeclaredVariables(root) } });
  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
  // The worker is gone, so drop the results of running requests. Only an observer gets time to handle its event.
  lines.on('close', () => {
    setTimeout(() => process.exit(0), OBSERVER_GRACE_MS).unref();
    void observing.finally(() => process.exit(0));
  });
  lines.on('line', (line) => {
    const request = JSON.parse(line) as ChildRequest | AbortRequest;
    if (request.op === 'abort')
      return acting?.abort(new Error('the session or its worker no longer waits for this action'));
    void answer(root, request).then(
      (ok) => sendAnswer({ ok: ok ?? null }),
      (error: unknown) => sendAnswer(createFailedAnswer(error)),
    );
  });
} catch (error) {
  answers.end(
    `${JSON.stringify(createFailedAnswer(error instanceof RequestError ? error : new RequestError('skill/unusable', errorFacts(error).message)))}\n`,
    () => process.exit(1),
  );
}
