/** The templates of `voidbox init`: the first spec, and the examples of the package. */
import { readdirSync, readFileSync } from 'node:fs';
import { cp, lstat, readdir } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative } from 'node:path';
import type { Plan } from '../../domain/plan/plan.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { createUsageError } from '../../app/app-error.ts';
import { FIRST_SPEC } from './first-spec.ts';
import { createMapping } from '../../domain/units/mapping.ts';

export interface Template {
  readonly name: string;
  /** One line. */
  readonly about: string;
  readonly text: string;
  /** The folder of the example, if its spec mounts folders; null if it mounts none of them. */
  readonly folder: string | null;
}

/** Returns the default template, then those of `examples/` in sorted order. */
export function readTemplates(folder: string = join(findPackageRoot(), 'examples')): readonly Template[] {
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

/** Returns the first sentence of the first comment. */
function aboutOf(text: string): string {
  const comment = /^# ?(.*)/.exec(text)?.[1] ?? '';
  return comment.replace(/[.:](?: .*)?$/, '');
}

/** Returns the text for `file`: comments of the template that show how to run it name that file. */
export function textFor({ name, text }: Template, file: string): string {
  return text.replaceAll(name === 'first' ? 'voidbox run voidbox.yaml' : `examples/${name}.yaml`, (found) =>
    found.startsWith('voidbox run') ? `voidbox run ${file}` : file,
  );
}

/** The limits of the files that are copied with a template. */
const COPY_LIMITS = { files: 1_000, bytes: 16 * 2 ** 20 };

export interface CopiedFiles {
  /** Folders and files, by their paths from the folder of the copy. */
  readonly mounted: readonly string[];
  /** Files of other specs. */
  readonly parts: readonly string[];
  /** Files and folders of step machines that stages use. */
  readonly skills: readonly string[];
  /** Other files and folders that the spec names: documents of agents, files that `for_each` lists, repositories, images. */
  readonly files: readonly string[];
}

/** The inputs that a run of a template needs. */
export interface TemplateNeeds {
  /** Parameters with their defaults; null: one without a default. */
  readonly params: Readonly<Record<string, string | null>>;
  /** Variables of the host with keys of models and other secrets. */
  readonly variables: readonly string[];
  readonly hasAgents: boolean;
}

/**
 * Copies the files that the template names to the folder of the copy. It changes no file that exists there.
 * @throws AppError for a template with a link or with more files than the limits allow; then no file is copied
 */
export async function copyNeeded({ text, folder }: Template, path: string): Promise<CopiedFiles> {
  if (folder === null) return { mounted: [], parts: [], skills: [], files: [] };
  const { plan, used, listed } = await loadTemplate(text, folder);
  const selectWithin = (paths: Iterable<string>): readonly string[] =>
    [...new Set([...paths].map((each) => relative(folder, each)))].filter(
      (name) => name !== '' && name !== '..' && !name.startsWith('../'),
    );
  const mounted = selectWithin(
    plan?.scopes.flatMap(({ sandbox }) => sandbox.mounts.map(({ source }) => source.path)) ?? [],
  );
  const parts = selectWithin(used);
  const skills = selectWithin(
    plan?.stages.flatMap(({ work }) => (work.kind === 'skill' ? [work.source.path] : [])) ?? [],
  );
  const named = selectWithin([
    ...(plan === null ? [] : otherPathsOf(plan)),
    ...listed.map((name) => join(folder, name)),
  ]);
  const files = named.filter((name) => ![...mounted, ...parts, ...skills].some((other) => holds(other, name)));
  const names = [...mounted, ...parts, ...skills, ...files];
  await checkCopied(folder, names);
  for (const name of names)
    await cp(join(folder, name), join(dirname(path), name), { recursive: true, force: false, errorOnExist: false });
  return { mounted, parts, skills, files };
}

/** Documents of agents, repositories of workspaces, and images. */
function otherPathsOf({ stages, scopes }: Plan): readonly string[] {
  const documents = stages.flatMap(({ work }) =>
    work.kind === 'agent' || work.kind === 'skill'
      ? work.skills.flatMap((skill) => (skill.kind === 'file' ? [skill.source.path] : []))
      : [],
  );
  const repositories = stages.flatMap(({ workspace }) =>
    workspace?.from.kind === 'folder' ? [workspace.from.source.path] : [],
  );
  const images = scopes.flatMap(({ sandbox }) => {
    const image = sandbox.needs?.image;
    return image !== undefined && isAbsolute(image) ? [image] : [];
  });
  return [...documents, ...repositories, ...images];
}

function holds(folder: string, name: string): boolean {
  return name === folder || name.startsWith(`${folder}/`);
}

/** Counts what would be copied. A link could name a file outside of the templates. */
async function checkCopied(folder: string, names: readonly string[]): Promise<void> {
  let count = 0;
  let sizeBytes = 0;
  const open = [...names];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const found = await lstat(join(folder, name));
    count += 1;
    if (found.isFile()) sizeBytes += found.size;
    else if (found.isDirectory()) open.push(...(await readdir(join(folder, name))).map((each) => `${name}/${each}`));
    else
      throw createUsageError(`the template names \`${name}\`, which is not a file and not a folder: it is not copied`);
    if (count > COPY_LIMITS.files || sizeBytes > COPY_LIMITS.bytes)
      throw createUsageError(
        `the template names more than ${COPY_LIMITS.files} files or ${COPY_LIMITS.bytes / 2 ** 20} MiB, which are not copied`,
        `Copy them yourself from ${folder}`,
      );
  }
}

interface LoadedTemplate {
  /** Null: the template has an error. */
  readonly plan: Plan | null;
  /** Files of other specs. */
  readonly used: readonly string[];
  /** Files that `for_each` lists, by their paths from the folder of the template. */
  readonly listed: readonly string[];
}

async function loadTemplate(text: string, folder: string): Promise<LoadedTemplate> {
  const { loadText } = await import('../../domain/language/load.ts');
  const { listFiles } = await import('../../sdk/list-files.ts');
  const { readStepMachine } = await import('../../sdk/read-skill.ts');
  const { createReadSpec } = await import('../../sdk/read-spec.ts');
  const listed: string[] = [];
  const { plan, parts } = await loadText(text, join(folder, 'template.yaml'), {
    baseDir: folder,
    params: {},
    readStepMachine,
    readSpec: createReadSpec([folder]),
    listFiles: (from, pattern) => {
      const found = listFiles(from, pattern);
      if ('files' in found) listed.push(...found.files.map((name) => relative(folder, join(from, name))));
      return found;
    },
  });
  return { plan, used: [...parts.keys()], listed };
}

export async function needsOf({ text, folder }: Template): Promise<TemplateNeeds> {
  const { parse } = await import('yaml');
  const { demandedVariablesOf } = await import('../../domain/plan-rules/variables.ts');
  const { selectAgentStages } = await import('../../domain/plan-rules/mock-agents.ts');
  const spec = parse(text) as { readonly params?: Readonly<Record<string, unknown>> };
  const params = Object.entries(spec.params ?? {}).map(([name, declared]) => [name, defaultIn(declared)] as const);
  const plan = folder === null ? null : (await loadTemplate(text, folder)).plan;
  return {
    params: createMapping(params),
    variables: plan === null ? [] : [...new Set(demandedVariablesOf(plan.stages).map(({ name }) => name))],
    hasAgents: plan !== null && selectAgentStages(plan).length > 0,
  };
}

/** `who: world`, or a mapping with `default`. */
function defaultIn(declared: unknown): string | null {
  const value: unknown =
    typeof declared === 'object' && declared !== null ? (declared as { readonly default?: unknown }).default : declared;
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;
}
