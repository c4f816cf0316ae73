/** What `voidbox init` can start from: the first spec, and the examples of the package. */
import { readdirSync, readFileSync } from 'node:fs';
import { cp } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { packageRoot } from '../setup/package-root.ts';
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
}

/** What the template mounts and uses comes beside its copy; nothing that is there already is changed. */
export async function copyNeeded({ text, folder }: Template, path: string): Promise<Copied> {
  if (folder === null) return { mounted: [], parts: [] };
  const { loadText } = await import('../domain/spec/load.ts');
  const { listFiles } = await import('../sdk/list-files.ts');
  const { readSkill } = await import('../sdk/read-skill.ts');
  const { createReadSpec } = await import('../sdk/read-spec.ts');
  const { plan, parts: used } = await loadText(text, join(folder, 'template.yaml'), {
    baseDir: folder,
    params: {},
    readSkill,
    readSpec: createReadSpec([folder]),
    listFiles,
  });
  const sources = plan?.scopes.flatMap(({ sandbox }) => sandbox.mounts.map(({ source }) => source.path)) ?? [];
  const within = (paths: Iterable<string>): readonly string[] =>
    [...new Set([...paths].map((each) => relative(folder, each)))].filter(
      (name) => name !== '' && name !== '..' && !name.startsWith('../'),
    );
  const mounted = within(sources);
  const parts = within(used.keys());
  for (const name of [...mounted, ...parts])
    await cp(join(folder, name), join(dirname(path), name), { recursive: true, force: false, errorOnExist: false });
  return { mounted, parts };
}
