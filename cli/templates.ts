/** What `voidbox init` can start from: the first spec, and the examples of the package. */
import { readdirSync, readFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { packageRoot } from '../setup/package-root.ts';
import type { loadText as LoadText } from '../domain/spec/load.ts';
import { FIRST_SPEC } from './first-spec.ts';

export interface Template {
  readonly name: string;
  /** One line. */
  readonly about: string;
  readonly text: string;
  /** Where the example lies, whose folders it mounts; null: it mounts none. */
  readonly folder: string | null;
}

/** `examples/` in sorted order, behind the default. */
export function readTemplates(folder: string = join(packageRoot(), 'examples')): readonly Template[] {
  const files = readdirSync(folder)
    .filter((file) => file.endsWith('.yaml'))
    .sort();
  const first = { name: 'first', text: FIRST_SPEC, folder: null };
  const examples = files.map((file) => ({
    name: file.slice(0, -'.yaml'.length),
    text: readFileSync(join(folder, file), 'utf8'),
    folder,
  }));
  return [first, ...examples].map((template) => ({ ...template, about: aboutOf(template.text) }));
}

/** The first sentence of the first comment. */
function aboutOf(text: string): string {
  const comment = /^# ?(.*)/.exec(text)?.[1] ?? '';
  return comment.replace(/[.:](?: .*)?$/, '');
}

/** As it stands in `file`, whose comments name how it is run. */
export function textFor({ name, text }: Template, file: string): string {
  return text.replaceAll(name === 'first' ? 'voidbox run voidbox.yaml' : `examples/${name}.yaml`, (found) =>
    found.startsWith('voidbox run') ? `voidbox run ${file}` : file,
  );
}

export interface Copied {
  /** Folders and files, by their paths from the folder of the copy. */
  readonly mounted: readonly string[];
  /** Files of other specs. */
  readonly parts: readonly string[];
  /** Files and folders of step machines that stages use. */
  readonly skills: readonly string[];
}

/** What one gives a run of a template. */
export interface TemplateNeeds {
  /** Parameters with their defaults; null: one without a default. */
  readonly params: Readonly<Record<string, string | null>>;
  /** Variables of the host with keys of models and other secrets. */
  readonly variables: readonly string[];
  readonly hasAgents: boolean;
}

/** What the template mounts and uses comes beside its copy; nothing that is there already is changed. */
export async function copyNeeded({ text, folder }: Template, path: string): Promise<Copied> {
  if (folder === null) return { mounted: [], parts: [], skills: [] };
  const { plan, parts: used } = await loadTemplate(text, folder);
  const sources = plan?.scopes.flatMap(({ sandbox }) => sandbox.mounts.map(({ source }) => source.path)) ?? [];
  const within = (paths: Iterable<string>): readonly string[] =>
    [...new Set([...paths].map((each) => relative(folder, each)))].filter(
      (name) => name !== '' && name !== '..' && !name.startsWith('../'),
    );
  const mounted = within(sources);
  const parts = within(used.keys());
  const skills = within(plan?.stages.flatMap(({ work }) => (work.kind === 'skill' ? [work.source.path] : [])) ?? []);
  for (const name of [...mounted, ...parts, ...skills])
    await cp(join(folder, name), join(dirname(path), name), { recursive: true, force: false, errorOnExist: false });
  return { mounted, parts, skills };
}

async function loadTemplate(text: string, folder: string): Promise<Awaited<ReturnType<typeof LoadText>>> {
  const { loadText } = await import('../domain/spec/load.ts');
  const { listFiles } = await import('../sdk/list-files.ts');
  const { readSkill } = await import('../sdk/read-skill.ts');
  const { createReadSpec } = await import('../sdk/read-spec.ts');
  return await loadText(text, join(folder, 'template.yaml'), {
    baseDir: folder,
    params: {},
    readSkill,
    readSpec: createReadSpec([folder]),
    listFiles,
  });
}

export async function needsOf({ text, folder }: Template): Promise<TemplateNeeds> {
  const { parse } = await import('yaml');
  const { demandedVariablesOf } = await import('../domain/plan/work.ts');
  const { agentStages } = await import('../domain/plan/mock-agents.ts');
  const spec = parse(text) as { readonly params?: Readonly<Record<string, unknown>> };
  const params = Object.entries(spec.params ?? {}).map(([name, declared]) => [name, defaultIn(declared)] as const);
  const plan = folder === null ? null : (await loadTemplate(text, folder)).plan;
  return {
    params: Object.fromEntries(params),
    variables: plan === null ? [] : [...new Set(demandedVariablesOf(plan.stages).map(({ name }) => name))],
    hasAgents: plan !== null && agentStages(plan).length > 0,
  };
}

/** `who: world`, or a mapping with `default`. */
function defaultIn(declared: unknown): string | null {
  const value: unknown =
    typeof declared === 'object' && declared !== null ? (declared as { readonly default?: unknown }).default : declared;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;
}
