/** Compiles `for_each`: the list of items for which a stage runs. */
import { type EachPlan, type JsonValue, type Plan, PLAN_LIMITS } from '../../../plan/plan.ts';
import { findInstanceProblem } from '../../../run/instance.ts';
import { countUtf8Bytes } from '../../../units/utf8.ts';
import { itemSourceOf } from '../../read/item-source.ts';
import { type ListFiles, patternOf } from '../../read/file-pattern.ts';
import { listProblems, countTakenOutputs, writableIn } from '../../problems/list-limits.ts';
import type { ParamValues } from '../../grammar/param-values.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Spec, StageSpec } from '../../read/spec.ts';
import type { Located, Position } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';
import { describeStage } from './describe-stage.ts';

const REMEDY =
  'write a list, `params.NAME`, `stages.NAME.json` or `files("data/*.csv")`; for a name with other characters than letters, digits and `_`, write `stages["NAME"].json`';

interface EachContext {
  /** The name of the stage that provides the list, if that stage exists. */
  readonly source: string | null;
  readonly runMaxParallel: number;
  readonly params: ParamValues;
  readonly fill: Filler;
  /** The folder of the spec; null if the spec has no folder. */
  readonly baseDir: string | null;
  /** Absent: the compiler cannot read files of the author. */
  readonly listFiles: ListFiles | undefined;
  readonly what: string;
  readonly problems: Problems;
}

/** @returns undefined for a stage that runs once, or whose list was reported as wrong */
export function eachOf(
  spec: Spec,
  stage: StageSpec,
  { items }: { readonly items: number | null },
  context: Omit<EachContext, 'source' | 'what'>,
): EachPlan | undefined {
  const source = items === null ? null : spec.stages[items]!.name.value;
  return compileEach(stage, { ...context, source, what: describeStage(spec, stage) });
}

function compileEach(stage: StageSpec, context: EachContext): EachPlan | undefined {
  const { runMaxParallel, what, problems } = context;
  const { forEach, name } = stage;
  if (forEach === null) {
    warnOfNoItems(stage, what, problems);
    return undefined;
  }
  const tooLong = findInstanceProblem([{ part: name.value, item: PLAN_LIMITS.items - 1 }]);
  if (tooLong !== null) problems.error('spec/bad-name', name.at, `${what}: ${tooLong}`, 'give it a shorter name');
  const list = listOf(stage, context);
  if (list === null) return undefined;
  return {
    list,
    maxParallel: stage.itemsAtOnce ?? runMaxParallel,
    failFast: stage.failFast ?? false,
    allowFailures: stage.allowFailures ?? 0,
  };
}

function listOf({ forEach }: StageSpec, context: EachContext): EachPlan['list'] | null {
  const { source, params, what, problems } = context;
  const { at, text } = forEach!;
  const items = itemSourceOf({ forEach });
  switch (items?.kind) {
    case undefined:
      problems.error('spec/bad-value', at, `\`for_each\` of ${what} is ${quote(text)}, which is not a list`, REMEDY);
      return null;
    case 'stage':
      return source === null ? null : { kind: 'stage-output', stage: source, path: items.path };
    case 'inline':
      return inlineList(items.items, at, what, problems);
    case 'files': {
      const files = filesOf(items.pattern, context);
      return files === null ? null : inlineList(files, at, what, problems);
    }
    case 'param': {
      const { value: name } = items.name;
      const param = params.get(name);
      if (param === undefined) {
        problems.error(
          'spec/unknown-param',
          at,
          `\`for_each\` of ${what} names the parameter ${quote(name)}, which is not declared${problems.suggest(name, params.keys())}`,
          `declare it: \`params: { ${name}: { type: list } }\``,
        );
        return null;
      }
      // A mistake of this parameter was reported.
      if (param === null) return null;
      if (Array.isArray(param.value)) return inlineList(param.value as readonly JsonValue[], at, what, problems);
      problems.error(
        'spec/bad-value',
        at,
        `\`for_each\` of ${what} names the parameter ${quote(name)}, which is not a list`,
        `declare it with \`type: list\``,
      );
      return null;
    }
  }
}

/** Returns null if a mistake was reported. */
function filesOf(
  written: Located<string>,
  { fill, baseDir, listFiles, what, problems }: EachContext,
): readonly string[] | null {
  const { at } = written;
  const pattern = patternOf(fill(written));
  if ('problem' in pattern) {
    problems.error('spec/bad-path', at, `\`for_each\` of ${what}: ${pattern.problem}`, pattern.remedy);
    return null;
  }
  if (baseDir === null || listFiles === undefined) {
    problems.error(
      'spec/bad-path',
      at,
      `\`for_each\` of ${what} lists files of the spec's folder, and the spec comes as a text without one`,
      'run the spec from its file, or give the list as a parameter: `for_each: params.files`',
    );
    return null;
  }
  const listed = listFiles(baseDir, pattern);
  if ('problem' in listed) {
    problems.error(
      'spec/bad-path',
      at,
      `\`for_each\` of ${what} lists ${quote(pattern.text)}: ${listed.problem}`,
      'name a smaller folder, or correct the pattern',
    );
    return null;
  }
  if (listed.files.length === 0)
    problems.warning(
      'spec/bad-path',
      at,
      `\`for_each\` of ${what}: no file below ${baseDir} matches ${quote(pattern.text)}, so the stage has no items`,
      'correct the pattern: it is relative to the folder of the spec, `*` matches within one name, and `**/` matches any folders',
    );
  return listed.files;
}

function inlineList(items: readonly JsonValue[], at: Position, what: string, problems: Problems): EachPlan['list'] {
  const bytes = items.length > PLAN_LIMITS.items ? 0 : countUtf8Bytes(JSON.stringify(items));
  if (items.length > PLAN_LIMITS.items || bytes > PLAN_LIMITS.itemListBytes)
    problems.error(
      'spec/too-large',
      at,
      `\`for_each\` of ${what} has ${items.length} items${bytes === 0 ? '' : ` and ${bytes} bytes`}; at most ${PLAN_LIMITS.items} items and ${PLAN_LIMITS.itemListBytes} bytes are allowed`,
      'combine several values into one item',
    );
  return { kind: 'inline', items };
}

/** Warns of keys that configure items if the stage has no `for_each`. */
function warnOfNoItems(stage: StageSpec, what: string, problems: Problems): void {
  const keys = { max_parallel: stage.itemsAtOnce, fail_fast: stage.failFast, allow_failures: stage.allowFailures };
  for (const [key, value] of Object.entries(keys))
    if (value !== null)
      problems.warning(
        'spec/bad-value',
        stage.name.at,
        `${what} has \`${key}\` and no \`for_each\`: it never applies`,
        'add a `for_each`, or remove it',
      );
}

/**
 * Checks what each item needs besides its command. A stage has one capture of a host folder, so items that run
 * concurrently would each undo the changes of the others.
 */
export function checkItems(plan: Plan, at: (stage: string) => Position, problems: Problems): void {
  const { stages, scopes } = plan;
  for (const stage of stages) {
    const { id, each, of } = stage;
    if (each === undefined && of === undefined) continue;
    // The stage that ends an item takes the output that the part hands on.
    const taken = countTakenOutputs({ ...stage, each: undefined }) + (each?.list.kind === 'stage-output' ? 1 : 0);
    const what = each === undefined ? `runs for each item of ${quote(of!)}` : 'has `for_each`';
    if (taken > PLAN_LIMITS.itemInputs)
      problems.error(
        'spec/too-large',
        at(of ?? id),
        `the stage ${quote(id)} ${what} and takes ${taken} outputs of earlier stages; at most ${PLAN_LIMITS.itemInputs} are allowed`,
        'collect them in one earlier stage, and use its output',
      );
    const writable = each === undefined ? undefined : writableIn(scopes, stage.scope);
    if (writable !== undefined)
      problems.error(
        'spec/unordered-writers',
        at(id),
        `the stage ${quote(id)} has \`for_each\` and the writable mount ${writable}: items would overwrite each other's files`,
        'mount it with `mode: ro`, and return the result of each item on standard output or in `output_file`',
      );
  }
  for (const { stage, message, remedy } of listProblems(plan))
    problems.error('spec/too-large', at(stage), message, remedy);
}
