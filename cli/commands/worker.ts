import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { packageRoot } from '../../setup/package-root.ts';
import { requireOpenFiles } from '../../setup/require-open-files.ts';
import { resolveHostPieces } from '../../setup/resolve.ts';
import { environmentError } from '../cli-error.ts';
import { defineCommand } from '../command.ts';
import { EXIT, type ExitCode } from '../exit-code.ts';
import { givenSkills } from '../skill-folders.ts';

interface Options {
  readonly allowMounts?: readonly string[];
  readonly skills?: readonly string[];
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .option('--allow-mounts <folder...>', 'host folders that runs may mount; none by default')
      .option('--skills <folder...>', 'folders of skills whose sessions this worker runs');
  },
  async execute(_args, options, context) {
    const { env } = context;
    if (!env.temporalConfigured) {
      throw environmentError(
        'cli/no-server',
        'no Temporal server is named: the embedded one has its worker already',
        'Name yours: TEMPORAL_ADDRESS=host:7233 voidbox worker, or a profile by TEMPORAL_PROFILE',
      );
    }
    requireOpenFiles('A worker');
    const skills = givenSkills(options.skills ?? [], context.cwd).flatMap((folder) => ['--skills', folder]);
    const pieces = await resolveHostPieces(env, {
      install: true,
      onProgress: (line) => void context.stderr.write(`==> ${line}\n`),
    });
    const mounts = (options.allowMounts ?? []).flatMap((folder) => ['--allow-mounts', folder]);
    // A process of its own: the command line never loads the worker, and a signal to the group reaches both.
    const child = spawn(
      process.execPath,
      [join(packageRoot(), 'dist', 'workers', 'main.js'), '--pieces', JSON.stringify(pieces), ...mounts, ...skills],
      {
        stdio: 'inherit',
      },
    );
    const listening = context.onInterrupt(() => undefined);
    const forward = (): void => void child.kill('SIGTERM');
    process.on('SIGTERM', forward);
    try {
      return await new Promise<ExitCode>((resolve, reject) => {
        child.once('error', reject);
        child.once('exit', (code, signal) =>
          resolve(code === 0 ? EXIT.success : signal === 'SIGINT' ? EXIT.interrupted : EXIT.environment),
        );
      });
    } finally {
      process.off('SIGTERM', forward);
      listening.dispose();
    }
  },
});
