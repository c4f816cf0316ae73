import type { Diagnostic } from '../errors/diagnostic.ts';
import type { Plan } from '../plan/plan.ts';
import { NO_NOTIFY, type Notify } from '../notification/notify.ts';
import type { Trigger } from '../delivery/trigger.ts';
import { type CompileOptions, compilePlan } from './compile/compile.ts';
import { compileOn } from './compile/trigger/compile-on.ts';
import { isImagePath } from './compile/vm/sandbox.ts';
import { isOwnImage } from './grammar/sandbox-table.ts';
import { agentSkillsOf } from './compile/stage/skill.ts';
import { type AppliedSettings, createUnapplied } from './compile/apply-settings.ts';
import { textsWithExpressions } from './compile/stage/texts.ts';
import { parseSpec } from './read/parse.ts';
import { type PartFile, type PartFiles, type ReadSpec, allOf, readPartFiles } from './read/part-files.ts';
import { resolveFrom } from './text/paths.ts';
import { resolveParams } from './read/params.ts';
import { createFiller } from './grammar/placeholders.ts';
import { Problems, sortByFile } from './text/diagnostics.ts';
import type { Spec } from './read/spec.ts';
import type { Position } from './text/tree.ts';

export interface CompiledText {
  /** Null if the diagnostics contain an error. */
  readonly plan: Plan | null;
  readonly diagnostics: readonly Diagnostic[];
  /**
   * The first place of each host path in the text, and of each image by name, for checks that only a host can make. The
   * paths are those that the plan mounts, or at which it has a skill or an image.
   */
  readonly mountPlaces: ReadonlyMap<string, Position>;
  /** Texts of the specs that it uses, by their name in diagnostics. */
  readonly parts: ReadonlyMap<string, string>;
  /** The effect of `settings`. */
  readonly appliedSettings: AppliedSettings;
  /** Empty if the diagnostics contain an error, or the spec has no `on`. */
  readonly triggers: readonly Trigger[];
  /** Without receivers if the diagnostics contain an error. */
  readonly notify: Notify;
  /** As in `CompiledOn`: errors of `voidbox deploy`. */
  readonly deployProblems: readonly Diagnostic[];
}

export interface LoadOptions extends Omit<CompileOptions, 'files'> {
  /** Absent: the spec comes without files that it could use. */
  readonly readSpec?: ReadSpec;
}

/** Compiles a spec's text to its plan, and returns the mistakes of both steps. */
export function compileText(text: string, file: string, options: LoadOptions): CompiledText {
  const parsed = parseSpec(text, file);
  return compileParsed(parsed, { ...options, files: filesOf(parsed, options) });
}

/**
 * Like `compileText`, but loads the language of conditions and the checker of schemas only for a spec that needs them.
 */
export async function loadText(
  text: string,
  file: string,
  options: Omit<LoadOptions, 'checkExpression' | 'checkSchema'>,
): Promise<CompiledText> {
  const parsed = parseSpec(text, file);
  const files = filesOf(parsed, options);
  const specs = [parsed, ...files.values()].flatMap((each) =>
    'spec' in each && each.spec !== null ? allOf(each.spec) : [],
  );
  const stages = specs.flatMap((spec) => spec.stages);
  const hasLoop = specs.some(
    ({ pipelineStages }) => pipelineStages?.some(({ variant }) => variant === 'loop') === true,
  );
  const expressions =
    !hasLoop &&
    (parsed.spec?.on ?? []).length === 0 &&
    stages.every((stage) => stage.when === null && textsWithExpressions(stage).length === 0)
      ? {}
      : { checkExpression: (await import('./expression/check.ts')).checkExpressions };
  const schemas = stages.every(({ outputSchema }) => outputSchema === null)
    ? {}
    : { checkSchema: await (await import('./schema/schema-engine.ts')).loadCheckSchema() };
  return compileParsed(parsed, { ...options, files, ...expressions, ...schemas });
}

function filesOf({ spec }: ReturnType<typeof parseSpec>, { baseDir, readSpec }: LoadOptions): PartFiles {
  return spec === null ? new Map() : readPartFiles(spec, baseDir, readSpec);
}

function compileParsed(parsed: ReturnType<typeof parseSpec>, options: CompileOptions): CompiledText {
  if (parsed.spec === null)
    return {
      plan: null,
      diagnostics: parsed.diagnostics,
      mountPlaces: new Map(),
      parts: new Map(),
      appliedSettings: createUnapplied(),
      triggers: [],
      notify: NO_NOTIFY,
      deployProblems: [],
    };
  const compiled = compilePlan(parsed.spec, options);
  const on = compileOn(parsed.spec, compiled.plan, options);
  const diagnostics = sortByFile([...parsed.diagnostics, ...compiled.diagnostics, ...on.diagnostics]);
  const hasError = diagnostics.some(({ severity }) => severity === 'error');
  const plan = hasError ? null : compiled.plan;
  const files = [...(options.files ?? new Map<string, PartFile>()).values()];
  const parts = new Map(files.flatMap((each) => ('text' in each ? [[each.file, each.text] as const] : [])));
  const { appliedSettings } = compiled;
  return {
    plan,
    diagnostics,
    mountPlaces: mountPlacesOf(parsed.spec, options),
    parts,
    appliedSettings,
    triggers: hasError ? [] : on.triggers,
    notify: hasError ? NO_NOTIFY : on.notify,
    deployProblems: on.deployProblems,
  };
}

function mountPlacesOf(spec: Spec, { baseDir, params }: LoadOptions): ReadonlyMap<string, Position> {
  const places = new Map<string, Position>();
  const add = (written: string, at: Position): void => {
    const path = /^https:\/\//i.test(written) ? written : resolveFrom(baseDir ?? '/', written);
    if (path !== null && !places.has(path)) places.set(path, at);
  };
  const specs = allOf(spec);
  for (const sandbox of specs.flatMap((each) => [each.sandbox, ...each.stages.map((stage) => stage.sandbox)])) {
    for (const { hostPath } of sandbox?.mounts ?? []) add(hostPath.value, hostPath.at);
    const image = sandbox?.image ?? null;
    if (image === null || isOwnImage(image.value)) continue;
    if (isImagePath(image.value)) add(image.value, image.at);
    else if (!places.has(image.value)) places.set(image.value, image.at);
  }
  for (const each of specs) {
    const repositories = each.stages.flatMap(({ workspace }) => workspace?.git ?? []);
    if (repositories.length === 0) continue;
    // Mistakes in these values were reported when the plan was made. The values of a part are known only there.
    const problems = new Problems(each.file);
    const values = resolveParams(each.params, each === spec ? (params ?? {}) : {}, each.name.at, problems);
    const { fill } = createFiller(values, problems);
    for (const git of repositories) add(fill(git), git.at);
  }
  for (const skill of specs.flatMap(({ stages }) => stages.flatMap(agentSkillsOf)))
    if (skill.variant === 'text' && skill.prefix === 'file') add(skill.text, skill.at);
  return places;
}
