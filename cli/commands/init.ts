import { stat, writeFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { packageRoot } from '../../setup/package-root.ts';
import { usageError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import { editorLine } from '../editor-line.ts';
import { EXIT } from '../exit-code.ts';
import { FIRST_SPEC } from '../first-spec.ts';

interface Options {
  readonly json?: boolean;
  readonly force?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command.argument('[file]', 'where to write it', 'voidbox.yaml').option('--force', 'overwrite a file that is there');
  },
  async execute([file = 'voidbox.yaml'], options, context) {
    const path = resolve(context.cwd, file);
    const there = await stat(path).catch(() => null);
    if (there?.isDirectory() === true)
      throw usageError(
        `\`${file}\` is a folder`,
        `Name a file in it: voidbox init ${quote(`${file.replace(/\/+$/, '')}/voidbox.yaml`)}`,
      );
    try {
      await writeFile(path, `${await editorLine(dirname(path), packageRoot())}${FIRST_SPEC}`, {
        flag: options.force ? 'w' : 'wx',
      });
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === 'EEXIST')
        throw usageError(`\`${file}\` is already there`, `Overwrite it: voidbox init ${quote(file)} --force`);
      if (code === 'ENOENT')
        throw usageError(
          `cannot write \`${file}\`: there is no folder ${dirname(path)}`,
          `Make it: mkdir -p ${quote(dirname(path))}`,
        );
      if (typeof code === 'string') throw usageError(`cannot write \`${file}\`: ${(error as Error).message}`);
      throw error;
    }
    if (options.json) await context.stdout.write(`${JSON.stringify({ file: path })}\n`);
    else
      await context.stdout.write(
        `Wrote ${file}. Next:\n${context.advise(`  voidbox validate ${quote(file)}\n  voidbox run ${quote(file)}`)}\n`,
      );
    return EXIT.success;
  },
});

function quote(file: string): string {
  return /^[A-Za-z0-9._/-]+$/.test(file) && !basename(file).startsWith('-')
    ? file
    : `'${file.replaceAll("'", `'\\''`)}'`;
}
