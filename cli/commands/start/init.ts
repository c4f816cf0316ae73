import { stat, writeFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { createUsageError } from '../../../app/app-error.ts';
import { defineCommand } from '../../command.ts';
import { editorLine } from '../../init/editor-line.ts';
import { renderImageCommand, renderFixSpec } from '../../init/fix-spec.ts';
import { findTests, isRepository, type ProjectTests } from '../../init/project.ts';
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
    const tests = options.template === undefined ? findTests(dirname(path)) : null;
    const template =
      tests === null
        ? templateOf(options.template ?? 'first')
        : { name: 'first', about: '', text: renderFixSpec(tests), folder: dirname(path) };
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
    // A spec for the tests of its own folder names no file of the package, and its image does not exist yet.
    const copied = await copyNeeded(tests === null ? template : { ...template, folder: null }, path);
    if (options.json)
      await context.stdout.write(
        `${JSON.stringify({
          file: path,
          template: tests === null ? template.name : null,
          testCommand: tests?.command ?? null,
          packages: tests?.packages ?? null,
          ...copied,
        })}\n`,
      );
    else {
      const written = [file, ...copied.mounted, ...copied.parts, ...copied.skills, ...copied.files].join(' and ');
      const purpose = tests === null ? '' : `: an agent fixes what \`${tests.command}\` finds`;
      const isUnknown = tests === null && options.template === undefined && isRepository(dirname(path));
      const next = [
        ...listImageLines(file, tests, context),
        ...nextLines(file, await needsOf(template), context),
        ...(isUnknown
          ? [
              `  ${context.advise('voidbox init fix.yaml --template fix-a-test')}   # an agent for the tests of a repository`,
            ]
          : []),
      ];
      await context.stdout.write(`Wrote ${written}${purpose}. Next:\n${next.join('\n')}\n`);
    }
    return EXIT.success;
  },
});

/** The command that makes the image which the spec names, in the folder of the spec. */
function listImageLines(file: string, tests: ProjectTests | null, { advise }: CliContext): string[] {
  if (tests === null || tests.packages === null) return [];
  const folder = dirname(file);
  const command = renderImageCommand(tests.packages);
  const there = folder === '.' ? command : `(cd ${quote(folder)} && ${command})`;
  return [
    `  ${there}   # an image with ${tests.packages.manager}; without Docker: ${advise('voidbox explain your-own-image')}`,
  ];
}

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
