import { stat, writeFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { packageRoot } from '../../../setup/package-root.ts';
import { usageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { editorLine } from '../../init/editor-line.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { nearest } from '../../../domain/language/text/suggest.ts';
import { renderTable } from '../../render/text/table.ts';
import {
  copyNeeded,
  needsOf,
  readTemplates,
  type Template,
  type TemplateNeeds,
  textFor,
} from '../../init/templates.ts';

interface Options {
  readonly json?: boolean;
  readonly force?: boolean;
  readonly template?: string;
  readonly list?: boolean;
}

export const command = defineCommand<Options>({
  takesAnyStateFormat: true,
  configure: (command) => {
    const names = readTemplates().map(({ name }) => name);
    command
      .argument('[file]', 'where to write it', 'voidbox.yaml')
      .option('--force', 'overwrite an existing file')
      .option('--template <name>', `what to start from: ${names.join(', ')}`, 'first')
      .option('--list', 'print the templates and write nothing');
  },
  async execute([file = 'voidbox.yaml'], options, context) {
    if (options.list === true) return await list(options.json === true, context);
    const template = templateOf(options.template ?? 'first');
    const path = resolve(context.cwd, file);
    const there = await stat(path).catch(() => null);
    if (there?.isDirectory() === true)
      throw usageError(
        `\`${file}\` is a folder`,
        `Name a file in it: voidbox init ${quote(`${file.replace(/\/+$/, '')}/voidbox.yaml`)}`,
      );
    try {
      await writeFile(path, `${await editorLine(dirname(path), packageRoot())}${textFor(template, file)}`, {
        flag: options.force ? 'w' : 'wx',
      });
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === 'EEXIST')
        throw usageError(`\`${file}\` already exists`, `Overwrite it: voidbox init ${quote(file)} --force`);
      if (code === 'ENOENT')
        throw usageError(
          `cannot write \`${file}\`: the folder ${dirname(path)} does not exist`,
          `Create it: mkdir -p ${quote(dirname(path))}`,
        );
      if (typeof code === 'string') throw usageError(`cannot write \`${file}\`: ${(error as Error).message}`);
      throw error;
    }
    const copied = await copyNeeded(template, path);
    if (options.json)
      await context.stdout.write(`${JSON.stringify({ file: path, template: template.name, ...copied })}\n`);
    else
      await context.stdout.write(
        `Wrote ${[file, ...copied.mounted, ...copied.parts, ...copied.skills, ...copied.files].join(' and ')}. Next:\n${nextLines(file, await needsOf(template), context).join('\n')}\n`,
      );
    return EXIT.success;
  },
});

/** Commands that one types next: with each parameter, and for agents first without a model. */
function nextLines(file: string, { params, variables, hasAgents }: TemplateNeeds, { advise }: CliContext): string[] {
  const given = Object.entries(params).map(([name, value]) => ` --param ${quote(`${name}=${value ?? 'VALUE'}`)}`);
  const run = `voidbox run ${quote(file)}${given.join('')}`;
  const keys = variables.map((name) => `${name}=… `).join('');
  return [
    `  ${advise(`voidbox validate ${quote(file)}`)}`,
    ...(hasAgents ? [`  ${advise(`${run} --mock-agents`)}   # no model, no key: the mock agent plays`] : []),
    `  ${keys}${advise(run)}`,
  ];
}

function templateOf(name: string): Template {
  const templates = readTemplates();
  const found = templates.find((template) => template.name === name);
  if (found !== undefined) return found;
  const meant = nearest(
    name,
    templates.map((template) => template.name),
  );
  throw usageError(
    `there is no template \`${name}\``,
    `${meant === null ? '' : `Did you mean ${meant}? `}All of them: voidbox init --list`,
  );
}

async function list(json: boolean, { stdout }: CliContext): Promise<ExitCode> {
  const templates = readTemplates();
  if (json) {
    const rows = templates.map(({ name, about }) => ({ name, about }));
    await stdout.write(`${JSON.stringify({ templates: rows })}\n`);
    return EXIT.success;
  }
  const lines = renderTable(
    ['TEMPLATE', ''],
    templates.map(({ name, about }) => [name, about]),
    { style: stdout.style, width: stdout.width() },
  );
  await stdout.write(`${lines.join('\n')}\n`);
  return EXIT.success;
}

function quote(file: string): string {
  return /^[A-Za-z0-9._/=-]+$/.test(file) && !basename(file).startsWith('-')
    ? file
    : `'${file.replaceAll("'", `'\\''`)}'`;
}
