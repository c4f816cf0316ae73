/** Compiles `uses`: another spec as a part of this one. The stages of the part become stages of this plan. */
import type { Diagnostic } from '../../errors/diagnostic.ts';
import { mayLackOutput } from '../../pipeline/machine-plan.ts';
import { type Plan, PLAN_LIMITS } from '../../plan/plan.ts';
import { waitOf } from '../../plan/work.ts';
import { writableIn } from '../problems/list-limits.ts';
import type { CheckedExpression, CheckExpressions } from '../expression/check.ts';
import { type InlinedPart, inlinePart, type PartPlace } from './inline-part.ts';
import { folderOf, type PartFilePath, type PartFiles, partPath } from '../read/part-files.ts';
import type { AppliedSettings } from './apply-settings.ts';
import type { Filler } from '../grammar/placeholders.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec, StageSpec } from '../read/spec.ts';
import type { Position } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';
import { createMapping } from '../../units/mapping.ts';

/** State that the compilations of a spec and of all its parts share. */
export interface PartContext {
  readonly files: PartFiles;
  /** Full path of the file that contains this spec; empty for the first file. */
  readonly file: string;
  /**
   * The chain of uses, from the first spec to this one. An entry is the full path of a file, or that path with `#` and
   * the name of a part in it.
   */
  readonly chain: readonly string[];
  /** True if the spec is a part that runs for each item, or is within such a part: its texts may read the item. */
  readonly ofItem: boolean;
  /** The value of the run; the `max_parallel` of a part has no effect. */
  readonly maxParallel: number;
  /** Counted over all specs so far. */
  readonly total: { stages: number };
  readonly found: Diagnostic[];
  readonly appliedSettings: AppliedSettings;
}

export interface UsedSpec {
  readonly spec: Spec;
  readonly baseDir: string | null;
  readonly params: Readonly<Record<string, string>>;
  readonly parts: PartContext;
}

export interface PartOptions {
  /** The parts that the spec can use by name. */
  readonly own: Spec['parts'];
  readonly baseDir: string | null;
  readonly fill: Filler;
  readonly check: CheckExpressions | null;
  readonly parts: PartContext;
  readonly compile: (used: UsedSpec) => { readonly plan: Plan | null; readonly diagnostics: readonly Diagnostic[] };
  readonly problems: Problems;
}

type Refuse = (message: string, remedy: string) => null;

/** Returns null if there is no such part, or if it has mistakes; both are reported. */
export function compilePart(
  stage: StageSpec,
  place: Omit<PartPlace, 'source'>,
  what: string,
  options: PartOptions,
): InlinedPart | null {
  const uses = stage.uses!;
  const { problems, parts, check } = options;
  const refuse = (message: string, remedy: string): null => {
    problems.error('spec/bad-part', uses.at, `\`uses\` of ${what} is ${quote(uses.value)}, ${message}`, remedy);
    return null;
  };
  const used = findUsedSpec(stage, what, options, refuse);
  if (used === null) return null;
  const compiled = options.compile(used);
  const known = new Set(parts.found.map((each) => JSON.stringify(each)));
  parts.found.push(...compiled.diagnostics.filter((each) => !known.has(JSON.stringify(each))));
  const { plan } = compiled;
  if (plan === null) return null;
  const results = plan.output.kind === 'stage' ? [plan.output.stage] : plan.output.stages;
  const sources = plan.stages.filter(({ id }) => results.includes(id));
  const lacking = sources.find((each) => waitOf(each.work) !== null || (results.length === 1 && mayLackOutput(each)));
  if (lacking !== undefined)
    return refuse(
      `whose result is the output of ${quote(lacking.id)}, which may have no output`,
      'end the part with a stage that always has an output, or name such a stage in `output_step` or `output_box`',
    );
  for (const { id } of [...plan.stages, ...plan.scopes])
    if (`${place.id}.${id}`.length > PLAN_LIMITS.nameLength)
      return refuse(
        `whose stage ${quote(id)} would get the name ${quote(`${place.id}.${id}`)}, which has more than ${PLAN_LIMITS.nameLength} characters`,
        'shorten the name of the part or of the stage',
      );
  if (place.each !== undefined && refuseInItems(plan, refuse)) return null;
  const looped =
    place.when === null || place.each !== undefined ? undefined : plan.stages.find(({ loop }) => loop !== undefined);
  if (looped !== undefined)
    return refuse(
      `whose loop ${quote(looped.id)} cannot be passed by \`when\``,
      'write the condition at the boxes of the loop in the part',
    );
  const inlined = inlinePart(
    plan,
    { ...place, source: uses.value },
    {
      condition: (source) => readable(check!.condition(source)),
      text: (source) => readable(check!.text(source, undefined, true)),
    },
  );
  const broken = inlined.stages.find(({ when }) => when !== null && 'problems' in check!.condition(when.source));
  if (broken !== undefined)
    return refuse(
      `whose stage ${quote(broken.id)} has a condition that is too long when combined with the condition of ${what}`,
      'shorten one of the two conditions',
    );
  const tooLong = inlined.stages.find(({ texts }) =>
    texts?.sources.some((each) => 'problems' in check!.text(each, undefined, true)),
  );
  if (tooLong !== undefined)
    return refuse(
      `whose stage ${quote(tooLong.id)} has an expression in its texts that is too long once the part's prefix is added to its stage names`,
      'shorten the expression, or the name of the stage that uses the part',
    );
  return inlined;
}

/** Returns an expression that was already checked when its plan was compiled. */
function readable(read: ReturnType<CheckExpressions['text']>): CheckedExpression {
  if ('problems' in read) throw new Error('an expression of a plan cannot be read');
  return read;
}

/** Rejects features that have no meaning within an item, or are not supported there yet. */
function refuseInItems({ stages, scopes }: Plan, refuse: Refuse): boolean {
  const last = stages.find((stage) => stage.finally === true);
  const writing = stages.find(({ scope }) => writableIn(scopes, scope) !== undefined);
  if (last !== undefined)
    refuse(
      `whose stage ${quote(last.id)} has \`finally\`, which a part with \`for_each\` cannot have`,
      'move the stage with `finally` next to the stage with `for_each`: it belongs to the run, not to an item',
    );
  else if (writing !== undefined)
    refuse(
      `whose stage ${quote(writing.id)} has the writable mount ${writableIn(scopes, writing.scope)!}, which a part with \`for_each\` cannot have`,
      "mount it with `mode: ro`, and return the result of each item as its output: items would overwrite each other's files",
    );
  else return false;
  return true;
}

function findUsedSpec(stage: StageSpec, what: string, options: PartOptions, refuse: Refuse): UsedSpec | null {
  const { own, baseDir, fill, parts, problems } = options;
  const uses = stage.uses!;
  const beside = own.find(({ name }) => name.value === uses.value);
  const named = beside === undefined ? partPath(baseDir ?? '/', uses.value) : null;
  if (beside === undefined && named === null) {
    const names = own.map(({ name }) => name.value);
    return refuse(
      `which is neither a path of a spec nor a part${problems.suggest(uses.value, names)}`,
      'write the path of a YAML or JSON file that begins with `./` or `../`, followed by `#PART` for a part in that file, or the name of a part in `parts`',
    );
  }
  const path = named?.path ?? null;
  const key = keyOf(named ?? { path: parts.file, part: uses.value });
  if (parts.chain.includes(key))
    return refuse(
      `which uses ${path === null ? 'itself' : 'this spec'}, directly or through other parts`,
      'remove one of the two `uses`: a part must end before the stage that uses it',
    );
  if (parts.chain.length >= PLAN_LIMITS.partDepth)
    return refuse(
      `which nests parts ${parts.chain.length + 1} deep; at most ${PLAN_LIMITS.partDepth} levels are allowed`,
      'use the part in one of the outer specs',
    );
  const spec = beside === undefined ? readSpecOf(named!, options, refuse) : beside.spec;
  if (spec === null) return null;
  if (spec.timeoutMs !== null)
    return refuse(
      'which has `timeout_secs`, a limit for whole runs',
      'set `timeout_secs` at the stages of the part, or at the top level of the spec that uses it',
    );
  if (spec.budget !== null)
    return refuse(
      'which has `budget`, a limit for whole runs',
      'set `budget` at the stages of the part, or at the top level of the spec that uses it',
    );
  if (spec.maxParallel !== null)
    problems.warning(
      'spec/unsupported',
      uses.at,
      `\`max_parallel\` of ${quote(uses.value)} has no effect in a part: the run uses \`max_parallel\` of the spec that it starts from`,
      'remove it from the part, or set it in this spec',
    );
  if (spec.on.length > 0)
    problems.warning(
      'spec/unsupported',
      uses.at,
      `\`on\` of ${quote(uses.value)} has no effect in a part: only the spec that is deployed has triggers`,
      'write the triggers in this spec, or remove them from the part',
    );
  if (parts.total.stages + spec.stages.length > PLAN_LIMITS.stages)
    return refuse(
      `with which the run would have more than ${PLAN_LIMITS.stages} stages`,
      'split the spec into several runs',
    );
  parts.total.stages += spec.stages.length;
  const params = paramsOf(stage, spec, what, fill, problems);
  if (params === null) return null;
  const within = {
    ...parts,
    file: path ?? parts.file,
    chain: [...parts.chain, key],
    ofItem: parts.ofItem || stage.forEach !== null,
  };
  return { spec, baseDir: path === null ? baseDir : folderOf(path), params, parts: within };
}

/** Returns null if the spec has mistakes; they are reported. */
function readSpecOf(
  { path, part }: PartFilePath,
  { parts, problems }: Pick<PartOptions, 'parts' | 'problems'>,
  refuse: Refuse,
): Spec | null {
  const file = parts.files.get(path);
  const isFull = parts.files.size >= PLAN_LIMITS.partFiles;
  if (file === undefined)
    return refuse(
      isFull
        ? `and the spec uses more than ${PLAN_LIMITS.partFiles} files`
        : 'and a spec that is sent as text cannot use files',
      isFull
        ? 'put several parts into one file, below `parts`'
        : 'write the part into the same text, below `parts`, run it with `voidbox run FILE`, or send the compiled plan',
    );
  if ('problem' in file) return refuse(`which cannot be read: ${file.problem}`, 'correct the path, or add the file');
  const known = new Set(parts.found.map((each) => JSON.stringify(each)));
  parts.found.push(...file.diagnostics.filter((each) => !known.has(JSON.stringify(each))));
  if (part === null || file.spec === null) return file.spec;
  const names = file.spec.parts.map(({ name }) => name.value);
  const found = file.spec.parts.find(({ name }) => name.value === part);
  if (found !== undefined) return found.spec;
  return refuse(
    `and ${quote(file.file)} has no part ${quote(part)}${problems.suggest(part, names)}`,
    names.length === 0
      ? 'add the part to `parts` of that file, or write only the path of the file'
      : `name one of its parts: ${names.slice(0, 8).join(', ')}${names.length > 8 ? ', …' : ''}`,
  );
}

/** Returns the key of a part, or of a whole file, in the chain of uses. */
function keyOf({ path, part }: Pick<PartFilePath, 'path' | 'part'>): string {
  return part === null ? path : `${path}#${part}`;
}

/** Returns parameters in the form that `--param` has; null if a mistake was reported. */
function paramsOf(
  { uses, partParams }: StageSpec,
  { params }: Spec,
  what: string,
  fill: Filler,
  problems: Problems,
): Readonly<Record<string, string>> | null {
  const at = partParams?.at ?? uses!.at;
  const given = Object.entries((partParams?.value ?? {}) as Readonly<Record<string, unknown>>);
  const declared = new Map(params.map((param) => [param.name, param]));
  let isWhole = true;
  const error = (code: 'spec/undeclared-param' | 'spec/missing-param', message: string, remedy: string): void => {
    isWhole = false;
    problems.error(code, at, message, remedy);
  };
  for (const [name] of given)
    if (!declared.has(name))
      error(
        'spec/undeclared-param',
        `\`with\` of ${what} has ${quote(name)}, which ${quote(uses!.value)} does not declare${problems.suggest(name, declared.keys())}`,
        `declare it there: \`params: {${name}: …}\`, or remove it`,
      );
  for (const { name, fallback, isOpen } of params)
    if (fallback === null && !isOpen && !given.some(([each]) => each === name))
      error(
        'spec/missing-param',
        `${what} uses ${quote(uses!.value)} without a value for its parameter ${quote(name)}, which has no default`,
        `write \`with: { ${name}: … }\``,
      );
  if (!isWhole) return null;
  return createMapping(given.map(([name, value]) => [name, textOf(value, at, fill)]));
}

/** Fills placeholders in a text, or in the texts of a list. */
function textOf(value: unknown, at: Position, fill: Filler): string {
  if (typeof value === 'string') return fill({ value, at });
  return JSON.stringify(value, (_key, each: unknown) => (typeof each === 'string' ? fill({ value: each, at }) : each));
}
