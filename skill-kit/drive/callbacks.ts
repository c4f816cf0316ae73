/** One command of the engine, carried out by the author's callback: what it gives is the event that answers. */
import type { Command } from '../../domain/step-machine/command.ts';
import { mergeDeep, isDeeperThan, isPlain } from '../../domain/step-machine/deep-merge.ts';
import type {
  SkillDefinition,
  StepConfig,
  StoreAccessor,
  TransitionContext,
} from '../../domain/step-machine/definition.ts';
import type { SessionEventBody } from '../../domain/step-machine/event.ts';
import type { AnySchema } from '../../domain/step-machine/schema.ts';
import type { RecordLog, StepRecord } from '../../domain/step-machine/records.ts';
import { describeIssues } from '../../domain/step-machine/schema.ts';
import { MOST_LEVELS, findDepthProblem } from '../../domain/step-machine/size-limits.ts';
import { type FrameState, frameOf, type SessionState } from '../../domain/step-machine/state.ts';
import { storeView } from '../../domain/step-machine/store-view.ts';
import { act } from '../author/act.ts';
import { requireSynchronous, topicContent } from './callback-value.ts';
import type { SkillRuntime } from './runtime.ts';
import { writePreamble, writePrompt } from '../prompt/prompt-xml.ts';
import { type Checked, checkMade, checkValue, inputJsonSchema } from '../author/schema.ts';
import { system } from '../prompt/segments.ts';

/** Commands that are answered at once. */
export type CallbackCommand = Extract<
  Command,
  {
    readonly type:
      | 'render-prompt'
      | 'validate'
      | 'save'
      | 'choose-next'
      | 'measure-wait'
      | 'start-child'
      | 'render-topic'
      | 'check-final';
  }
>;

/** The part of a definition that a frame of a session runs. */
export function definitionAt(root: SkillDefinition, path: readonly string[]): SkillDefinition {
  let definition = root;
  for (const name of path) {
    const { subskills = {} } = definition;
    const sub = Object.hasOwn(subskills, name) ? subskills[name] : undefined;
    if (sub === undefined) throw new Error(`skill "${definition.name}" has no sub-skill "${name}"`);
    ({ definition } = sub);
  }
  return definition;
}

/** @throws whatever the author's callback throws */
export function execute(runtime: SkillRuntime, state: SessionState, command: CallbackCommand): SessionEventBody {
  const { cursor } = command;
  const at = new Place(runtime, state, command);
  switch (command.type) {
    case 'render-prompt':
      return { type: 'rendered', cursor, prompt: renderPrompt(runtime, at, command) };
    case 'validate': {
      // Accepted, it would be in the session for good, and what comes of it could not be told.
      const deep = findDepthProblem('the answer has', command.value);
      if (deep !== null) return { type: 'validated', cursor, ok: false, message: deep };
      const checked = checkValue(at.config.response!, command.value, `step "${command.step}": response`);
      return checked.ok
        ? { type: 'validated', cursor, ok: true, value: freeze(checked.value) }
        : { type: 'validated', cursor, ok: false, message: checked.message };
    }
    case 'save':
      return { type: 'saved', cursor, ...save(runtime, at, command) };
    case 'choose-next':
      return { type: 'chosen', cursor, target: chooseNext(at, command) };
    case 'measure-wait': {
      const { durationMs } = at.config.wait!;
      const context = {
        response: {},
        actionResult: undefined,
        attempts: command.attempts,
        params: at.frame.params,
        store: at.store,
      };
      return {
        type: 'measured',
        cursor,
        durationMs: typeof durationMs === 'number' ? durationMs : durationMs(context),
      };
    }
    case 'start-child':
      return { type: 'child-ready', cursor, params: childParams(at, command) };
    case 'render-topic':
      return {
        type: 'topic-rendered',
        cursor,
        content: topicContent(at.definition.topics!, command.topic, runtime.refs),
      };
    case 'check-final':
      return { type: 'final-checked', cursor, ...checkFinal(at, command) };
  }
}

/** Where in a session a callback is called. */
export class Place {
  readonly definition: SkillDefinition;
  readonly config: StepConfig;
  readonly step: string;
  readonly frame: FrameState;
  readonly #records: RecordLog;
  readonly #older: () => readonly StepRecord[];
  #store: StoreAccessor | undefined;

  constructor(
    runtime: SkillRuntime,
    state: SessionState,
    { frame, step }: { readonly frame: number; readonly step: string },
  ) {
    this.frame = frameOf(state, frame);
    this.definition = definitionAt(runtime.definition, this.frame.skill);
    this.config = this.definition.steps[step]!.config;
    this.step = step;
    this.#records = state.records;
    this.#older = runtime.olderRecords;
  }

  /** The store at this moment, which later reads do not change. */
  get store(): StoreAccessor {
    return (this.#store ??= storeView(this.frame, this.#records, this.#older));
  }
}

/** Deeper values stay as they are: freezing what a schema gave must not cost more than checking it did. */
export function freeze<T>(value: T): T {
  // Bytes, as a file read without an encoding gives them, cannot be frozen.
  return ArrayBuffer.isView(value) ? value : Object.freeze(value);
}

const schemas = new WeakMap<AnySchema, Record<string, unknown> | null>();

/** JSON Schema of a response: worked out once, for it costs more than all else in a step. */
function jsonSchemaOf(schema: AnySchema): Record<string, unknown> | null {
  const known = schemas.get(schema);
  if (known !== undefined) return known;
  const made = inputJsonSchema(schema);
  schemas.set(schema, made);
  return made;
}

function renderPrompt(
  runtime: SkillRuntime,
  at: Place,
  command: Extract<Command, { type: 'render-prompt' }>,
): { preamble?: string; prompt: string; schema: unknown } {
  const { prompt, response } = at.config;
  const { handshake, refs } = runtime;
  const pieces =
    typeof prompt === 'function'
      ? requireSynchronous(
          prompt({
            store: at.store,
            params: at.frame.params,
            refs,
            attempts: command.attempts,
            host: handshake,
            act,
            system,
          }),
          `step "${at.step}": prompt`,
        )
      : prompt!;
  return {
    ...(command.introduce ? { preamble: writePreamble(handshake, at.definition.system) } : {}),
    prompt: writePrompt(pieces, at.definition.name, `step "${at.step}"`),
    schema: response === undefined ? null : jsonSchemaOf(response),
  };
}

function save(
  runtime: SkillRuntime,
  at: Place,
  { response, actionResult }: Extract<Command, { type: 'save' }>,
): { result?: { readonly value: unknown }; writes: Readonly<Record<string, unknown>> } {
  const returned = requireSynchronous(
    at.config.save!({ response, actionResult, store: at.store, params: at.frame.params }),
    `step "${at.step}": save`,
  );
  const { step: result, ...writes } = (returned ?? {}) as Record<string, unknown>;
  const { stores: declared = {} } = at.definition;
  for (const [store, write] of Object.entries(writes)) {
    if (isDeeperThan(write, MOST_LEVELS)) {
      throw new Error(
        `step "${at.step}": save wrote a value to store "${store}" that is nested deeper than ${MOST_LEVELS} levels. Write less of it.`,
      );
    }
    // Names come from what agents answered: `constructor` is not a store that every object has.
    if (!Object.hasOwn(declared, store) || write === undefined) continue;
    const before = Object.hasOwn(at.frame.stores, store) ? at.frame.stores[store] : {};
    const warning = writeWarning(declared[store]!, before, write, store);
    if (warning !== null) runtime.warn(`save validation warning at step "${at.step}": ${warning}`);
  }
  return { ...(result === undefined ? {} : { result: { value: freeze(result) } }), writes };
}

/** What is wrong with a write, and not merely absent from it: sub-stores are filled bit by bit. */
function writeWarning(schema: AnySchema, before: unknown, write: unknown, store: string): string | null {
  const result = schema['~standard'].validate(mergeDeep(before, write));
  if ('then' in result || result.issues === undefined) return null;
  const wrong = result.issues.filter(({ path = [] }) =>
    isWithin(
      write,
      path.map((segment) => (typeof segment === 'object' ? segment.key : segment)),
    ),
  );
  return wrong.length === 0
    ? null
    : describeIssues(wrong.map(({ path = [], message }) => ({ path: [store, ...path], message })));
}

function isWithin(value: unknown, path: readonly PropertyKey[]): boolean {
  let at: unknown = value;
  for (const key of path) {
    if (!isPlain(at) && !Array.isArray(at)) return false;
    at = (at as Record<PropertyKey, unknown>)[key];
  }
  return at !== undefined;
}

function chooseNext(
  at: Place,
  { response, actionResult, attempts }: Extract<Command, { type: 'choose-next' }>,
): unknown {
  const context: TransitionContext = { response, attempts, actionResult, params: at.frame.params, store: at.store };
  const { next } = at.config;
  const where = `step "${at.step}": next`;
  if (typeof next === 'function') return requireSynchronous(next(context), where);
  if (!Array.isArray(next)) return next;
  const branches = next as readonly { readonly to: string; when?(context: TransitionContext): boolean }[];
  const taken = branches.find((branch) => branch.when === undefined || requireSynchronous(branch.when(context), where));
  if (taken === undefined)
    throw new Error(`Step "${at.step}": no branch matched and no default (entry without \`when\`) was provided.`);
  return taken.to;
}

/**
 * The last step's result, if the schema takes it. A last step that acts on its answer (it saves the card that it was given)
 * has the action's result; a schema that refuses that and takes the answer says that the answer is meant.
 */
function checkFinal(
  { definition, config, step }: Place,
  { finalOutput, response }: Extract<Command, { type: 'check-final' }>,
): { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly message: string } {
  const check = (value: unknown): Checked<unknown> =>
    checkMade(definition.finalOutput!, value, `skill "${definition.name}": finalOutput`);
  const result = check(finalOutput);
  if (result.ok) return { ok: true, value: freeze(result.value) };
  // A step without a schema has no answer: its response is {} by convention, which would hide a wrong result.
  const answer = config.response === undefined ? null : check(response);
  if (answer?.ok === true) return { ok: true, value: freeze(answer.value) };
  const neither =
    answer === null || answer.message === result.message ? '' : ` Nor is its response: ${answer.message}.`;
  return {
    ok: false,
    message: `${result.message}. The result of step "${step}" is not what \`finalOutput\` of skill "${definition.name}" describes.${neither} Let the step's \`save\` return it as \`step\`.`,
  };
}

function childParams(at: Place, { subskill, response }: Extract<Command, { type: 'start-child' }>): unknown {
  const { definition, paramsMap } = at.definition.subskills![subskill]!;
  return validParams(
    definition,
    paramsMap === undefined ? {} : requireSynchronous(paramsMap(response, at.store), `sub-skill "${subskill}": params`),
  );
}

/** Params with defaults applied. @throws {Error} `Invalid params ...` */
export function validParams(definition: SkillDefinition, params: unknown): unknown {
  if (definition.params === undefined) return freeze(params ?? {});
  const checked = checkMade(definition.params, params ?? {}, `skill "${definition.name}": params`);
  if (!checked.ok)
    throw new Error(
      `Invalid params for skill "${definition.name}": ${checked.message}. Pass --params with the required fields.`,
    );
  return freeze(checked.value);
}
