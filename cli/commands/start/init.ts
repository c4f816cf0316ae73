import { stat, writeFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { editorLine } from '../../init/editor-line.ts';
import { renderFixSpec } from '../../init/fix-spec.ts';
import { findTestCommand } from '../../init/project.ts';
import { findTask, TASK_NAMES } from '../../init/tasks.ts';
import type { CliContext } from '../../context.ts';
import { EXIT, type ExitCode } from '../../exit-code.ts';
import { findNearest } from '../../../domain/language/text/suggest.ts';
import { padEnd } from '../../render/text/width.ts';
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
      .argument('[file]', 'the file to write', 'voidbox.yaml')
      .option('--force', 'overwrite an existing file')
      .option(
        '--template <name>',
        `what to start from: ${names.join(', ')} (default: in a git repository with tests an agent that fixes them, else first)`,
      )
      .option('--list', 'print the templates and write nothing');
  },
  async execute([file = 'voidbox.yaml'], options, context) {
    if (options.list === true) return await list(options.json === true, context);
    const path = resolve(context.cwd, file);
    const testCommand = options.template === undefined ? findTestCommand(dirname(path)) : null;
    const template =
      testCommand === null
        ? templateOf(options.template ?? 'first')
        : { name: 'first', about: '', text: renderFixSpec(testCommand), folder: dirname(path) };
    const there = await stat(path).catch(() => null);
    if (there?.isDirectory() === true)
      throw createUsageError(
        `\`${file}\` is a folder`,
        `Name a file in it: voidbox init ${quote(`${file.replace(/\/+$/, '')}/voidbox.yaml`)}`,
      );
    try {
      await writeFile(path, `${await editorLine(dirname(path), findPackageRoot())}${textFor(template, file)}`, {
        flag: options.force ? 'w' : 'wx',
      });
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === 'EEXIST')
        throw createUsageError(`\`${file}\` already exists`, `Overwrite it: voidbox init ${quote(file)} --force`);
      if (code === 'ENOENT')
        throw createUsageError(
          `cannot write \`${file}\`: the folder ${dirname(path)} does not exist`,
          `Create it: mkdir -p ${quote(dirname(path))}`,
        );
      if (typeof code === 'string') throw createUsageError(`cannot write \`${file}\`: ${(error as Error).message}`);
      throw error;
    }
    const copied = await copyNeeded(template, path);
    if (options.json)
      await context.stdout.write(
        `${JSON.stringify({ file: path, template: testCommand === null ? template.name : null, testCommand, ...copied })}\n`,
      );
    else
      await context.stdout.write(
        `Wrote ${[file, ...copied.mounted, ...copied.parts, ...copied.skills, ...copied.files].join(' and ')}${testCommand === null ? '' : `: an agent fixes what \`${testCommand}\` finds`}. Next:\n${nextLines(file, await needsOf(template), context).join('\n')}\n`,
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
    ...(hasAgents ? [`  ${advise(`${run} --mock-agents`)}   # no model, no key: the mock agent plays`] : []),
    `  ${keys}${advise(run)}`,
    `  ${advise(`voidbox validate ${quote(file)}`)}   # each mistake, with its place and its remedy`,
  ];
}

function templateOf(name: string): Template {
  const templates = readTemplates();
  const found = templates.find((template) => template.name === name);
  if (found !== undefined) return found;
  const meant = findNearest(
    name,
    templates.map((template) => template.name),
  );
  throw createUsageError(
    `there is no template \`${name}\``,
    `${meant === null ? '' : `Did you mean ${meant}? `}All of them: voidbox init --list`,
  );
}

async function list(json: boolean, { stdout }: CliContext): Promise<ExitCode> {
  const templates = readTemplates();
  if (json) {
    const rows = templates.map(({ name, about }) => ({ name, task: findTask(name), about }));
    await stdout.write(`${JSON.stringify({ templates: rows })}\n`);
    return EXIT.success;
  }
  const column = Math.max(...templates.map(({ name }) => name.length));
  const groups = TASK_NAMES.map((task) => {
    const rows = templates.filter(({ name }) => findTask(name) === task);
    const lines = rows.map(({ name, about }) => `  ${padEnd(name, column)}  ${stdout.style.dim(about)}`);
    return [stdout.style.bold(`${task}:`), ...lines].join('\n');
  });
  await stdout.write(`${groups.join('\n\n')}\n`);
  return EXIT.success;
}

function quote(file: string): string {
  return /^[A-Za-z0-9._/=-]+$/.test(file) && !basename(file).startsWith('-')
    ? file
    : `'${file.replaceAll("'", `'\\''`)}'`;
}
