import { PLAN_LIMITS, type PlanKind } from '../../plan/plan.ts';
import { AGENT } from '../grammar/agent-table.ts';
import { otherKeys } from '../grammar/other-keys.ts';
import { readKeys } from '../grammar/read.ts';
import { STAGE } from '../grammar/stage-table.ts';
import type { Problems } from '../text/diagnostics.ts';
import { readScript } from '../script/read-script.ts';
import { type FieldsOf, isAllowedBeside, type Key } from '../grammar/table.ts';
import { MapReader, readMap } from '../grammar/reader.ts';
import type { CommandSpec, EnvSpec, SectionSpec, StageSpec } from './spec.ts';
import type { TreeNode } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

const {
  name: NAME,
  run: RUN,
  approval: APPROVAL,
  wait: WAIT,
  prompt: PROMPT,
  skill: SKILL,
  uses: USES,
  ...REST
} = STAGE.keys;
const WORKS = { run: RUN, approval: APPROVAL, wait: WAIT, prompt: PROMPT, skill: SKILL, uses: USES } as const;
const OTHER_WORKS = Object.keys(WORKS).filter((key) => key !== 'run');

/** Reads steps of a workflow or boxes of a pipeline, and collects the names that could not be read. */
export function readStages(
  items: readonly TreeNode[],
  kind: PlanKind,
  problems: Problems,
): Pick<SectionSpec, 'stages' | 'lostNames'> {
  const over = items[PLAN_LIMITS.stages];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `the spec has ${items.length} ${kind === 'workflow' ? 'steps' : 'boxes'}; a run can have at most ${PLAN_LIMITS.stages}`,
      'split the spec into several specs',
    );
  const stages: StageSpec[] = [];
  const written = new Set<string>();
  let hasMore = over !== undefined;
  items.slice(0, PLAN_LIMITS.stages).forEach((item, index) => {
    const stage = readStage(item, kind, index, problems);
    if (stage !== null) stages.push(stage.spec);
    if (stage?.isNamed === true) return;
    const name = item.kind === 'map' ? item.entries.get('name')?.value : undefined;
    if (name?.kind === 'scalar' && name.value !== null) written.add(name.text);
    else hasMore = true;
    // Other stages may refer to a stage that could not be read, so these conclusions are open.
    if (stage === null) for (const gap of ['edges', 'order', 'outputs', 'secrets'] as const) problems.gap(gap);
  });
  return { stages, lostNames: { written, hasMore } };
}

/** Returns null if the node is not a mapping. */
function readStage(
  node: TreeNode,
  kind: PlanKind,
  index: number,
  problems: Problems,
): { readonly spec: StageSpec; readonly isNamed: boolean } | null {
  const noun = kind === 'workflow' ? 'step' : 'box';
  const map = readMap(node, `${noun} ${index + 1}`, problems);
  if (map === null) return null;
  const { name } = readKeys(map, { name: NAME }, { kind });
  if (name !== null) map.what = `${noun} ${quote(name.value)}`;
  const work = readWork(map, kind);
  const rest = readKeys(map, REST, { kind, beside: work.kind });
  const { command, env } = compileCommand(work.read.run, rest.env, map);
  refuseForeign(map, work.kind);
  map.finish(otherKeys(STAGE));
  // A stage whose name cannot be used gets its position as its name.
  return {
    spec: {
      ...rest,
      name: name ?? { value: `#${index + 1}`, at: map.at },
      ...work.read,
      run: command,
      env,
      agent: null,
      isShell: false,
    },
    isNamed: name !== null,
  };
}

type WorkKey = keyof typeof WORKS;

interface Work {
  readonly kind: WorkKey;
  readonly read: Pick<FieldsOf<typeof WORKS>, WorkKey>;
}

/** Reads the work of a stage: one of the keys of `WORKS`. Without such a key, `run` is reported as missing. */
function readWork(map: MapReader, kind: PlanKind): Work {
  const said = (Object.keys(WORKS) as WorkKey[]).filter((key) => map.has(key));
  const [first = 'run', second] = said;
  if (said.length === 0) map.required('run', RUN.form, OTHER_WORKS);
  if (second !== undefined) refuseSecond(map, first, second, kind);
  const chosen = said.at(-1) ?? 'run';
  const only = <K extends WorkKey>(key: K): Pick<typeof WORKS, K> | object =>
    key === chosen ? { [key]: WORKS[key] } : {};
  const keys = {
    ...only('run'),
    ...only('approval'),
    ...only('wait'),
    ...only('prompt'),
    ...only('skill'),
    ...only('uses'),
  };
  return {
    kind: chosen,
    read: {
      run: null,
      approval: null,
      wait: null,
      prompt: null,
      skill: null,
      uses: null,
      ...(said.length === 0 ? {} : readKeys(map, keys, { kind })),
    },
  };
}

function refuseSecond(map: MapReader, first: WorkKey, second: WorkKey, kind: PlanKind): void {
  const apart =
    second === 'approval' || second === 'wait' || second === 'uses'
      ? `write the ${second === 'uses' ? 'part' : second} as a ${kind === 'workflow' ? 'step of its own, which the command names in `depends_on`' : 'box of its own before it'}`
      : `write the other as a ${kind === 'workflow' ? 'step' : 'box'} of its own`;
  map.problems.error(
    'spec/wrong-key',
    map.keyAt(second),
    `${map.what} has both \`${first}\` and \`${second}\``,
    `keep one: ${apart}`,
  );
}

/** A text becomes a command of a shell, and its values become variables. */
function compileCommand(
  run: Work['read']['run'],
  env: readonly EnvSpec[],
  map: MapReader,
): { readonly command: CommandSpec | null; readonly env: readonly EnvSpec[] } {
  if (run === null) return { command: null, env };
  const { program, args, stdinFrom, cwd, text } = run;
  if (program !== null) return { command: { program, args, stdinFrom, cwd, script: null }, env };
  if (text === null) return { command: null, env };
  const taken = new Set(env.map(({ name }) => name));
  const { env: values, ...read } = readScript(text, `\`run\` of ${map.what}`, taken, map.problems);
  return { command: { ...read, stdinFrom, cwd }, env: [...env, ...values] };
}

const NOUNS: Readonly<Record<WorkKey, string>> = {
  run: 'a command',
  approval: 'an approval',
  wait: 'a wait',
  prompt: 'an agent',
  skill: 'a step machine',
  uses: 'a part',
};

/** The remedy for work that cannot have `for_each` itself. */
const LIST_OF_PARTS =
  'move it to a part in `parts`, and write `uses: PART` with `for_each` here; the item becomes the input of the part';

const INSTEAD: Readonly<Partial<Record<WorkKey, Readonly<Record<string, string>>>>> = {
  approval: {
    timeout_secs: 'write `timeout` in `approval`, such as `timeout: 2d`',
    sandbox: 'remove it: an approval has no VM',
    for_each: LIST_OF_PARTS,
  },
  wait: {
    timeout_secs: 'write `for` in `wait`, such as `for: 90s`',
    sandbox: 'remove it: a wait has no VM',
  },
  prompt: { for_each: LIST_OF_PARTS },
  skill: {
    for_each: LIST_OF_PARTS,
    llm: 'write it in `agent` of `skill`: `agent: { llm: { provider: NAME } }`',
    skills: 'write it in `agent` of `skill`: `agent: { skills: […] }`',
    output_file: 'remove it: the output is the output of the step machine',
    with: 'write `params` in `skill`',
  },
  uses: {
    timeout_secs: 'move it to the stages of the part',
    retry: 'move it to the stages of the part',
    sandbox: 'move it to the spec that the stage uses',
    env: 'pass values with `with`',
    secrets: 'move them to the stages of the part',
    llm: 'move it to the part, next to its `workflow`, `pipeline` or `agent`',
    budget: 'move it to the agents of the part',
    workspace: 'move it to a stage of the part',
  },
};

/** Reports keys that belong to another kind of work. */
function refuseForeign(map: MapReader, beside: WorkKey): void {
  for (const [name, key] of Object.entries<Key>(REST))
    if (!isAllowedBeside(key, beside) && map.has(name))
      map.problems.error(
        'spec/wrong-key',
        map.keyAt(name),
        `${map.what} is ${NOUNS[beside]}, which has no \`${name}\``,
        INSTEAD[beside]?.[name] ??
          `remove it: it belongs to ${formatList(key.goesWith!.map((work) => PLURALS[work]!))}`,
      );
}

function formatList(words: readonly string[]): string {
  return words.length < 3 ? words.join(' and ') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)!}`;
}

const PLURALS: Readonly<Record<string, string>> = {
  run: 'commands',
  approval: 'approvals',
  wait: 'waits',
  prompt: 'agents',
  skill: 'step machines',
  uses: 'parts',
};

/** Reads the section of `kind: agent`: one stage with the name of the spec. */
export function readAgent(map: MapReader, name: StageSpec['name']): SectionSpec {
  const { skills, mode, messaging, workspace: own, ...read } = readKeys(map, AGENT.keys, { kind: 'agent' });
  map.finish(otherKeys(AGENT));
  const workspace = own === null ? null : { ...own, from: null };
  return createStageSection({
    ...emptyStage(name, map.problems),
    ...read,
    workspace,
    skills,
    agent: { mode, messaging },
  });
}

/** Returns the section of `kind: sandbox`: one stage, which is a VM without work. */
export function readShell(name: StageSpec['name'], problems: Problems): SectionSpec {
  return createStageSection({ ...emptyStage(name, problems), isShell: true });
}

function emptyStage(name: StageSpec['name'], problems: Problems): StageSpec {
  const nothing = new MapReader({ kind: 'map', at: name.at, entries: new Map() }, 'the stage', problems);
  const {
    run: _run,
    approval,
    wait,
    prompt,
    skill,
    uses,
    ...rest
  } = readKeys(nothing, { ...WORKS, ...REST }, { kind: null });
  return { ...rest, run: null, approval, wait, prompt, skill, uses, name, agent: null, isShell: false };
}

function createStageSection(stage: StageSpec): SectionSpec {
  return {
    stages: [stage],
    lostNames: { written: new Set(), hasMore: false },
    output: null,
    pipelineStages: null,
    checkpoint: null,
  };
}
