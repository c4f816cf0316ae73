import { createToolRunner, installUnit, planUnit } from '../../../app/systemd/user-unit.ts';
import { UNIT_NAME } from '../../../app/systemd/unit-text.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';
import { listServeArguments } from '../../start/serve-arguments.ts';
import { addServeOptions, type ServeOptions } from '../../start/serve-options.ts';

interface Options extends ServeOptions {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--dry-run', '--listen', '--public-url', '--token-file'],
    examples: [
      ['voidbox service install --dry-run', 'print the unit and the commands, and change nothing'],
      ['voidbox service install && loginctl enable-linger', 'start the stack at each boot, without a login'],
      [
        'TEMPORAL_ADDRESS=HOST:7233 voidbox service install --listen 127.0.0.1:8080 --token-file daemon-token',
        'start `voidbox serve` with your own server',
      ],
    ],
    notes: [
      [
        'The unit',
        'It runs `voidbox up` with the variables of this shell that concern the stack, and no secret. Set them first, such as VOIDBOX_STATE_DIR.',
      ],
      [
        'Your own Temporal server',
        'With TEMPORAL_*, the unit runs `voidbox serve` with the options given here. Its variables, also secrets such as DATABASE_URL, are in a file of mode 0600 beside it. The worker has a unit of its own.',
      ],
      [
        'Your own settings',
        `They belong into a drop-in: systemctl --user edit ${UNIT_NAME}. A changed unit is refused.`,
      ],
    ],
    exitCodes: [
      ['0', 'the stack or `serve` runs, and starts again with your session'],
      ['2', 'the unit was not written by this command, or a variable cannot be in a unit'],
      ['3', 'environment: systemd does not answer, or the stack does not start'],
    ],
  },
  configure: (command) => {
    addServeOptions(command);
    command.option('--dry-run', 'print the unit and the commands, and change nothing');
  },
  async execute(_args, { dryRun, json, ...options }, context) {
    const { env, cwd, stdout, stderr } = context;
    const place = { env, cwd, node: process.execPath, root: findPackageRoot() };
    const serveArguments = listServeArguments(options, context);
    if (dryRun === true) {
      const { path, text, variables, commands } = planUnit(place, serveArguments);
      const shown = commands.map((words) => words.join(' '));
      if (json === true)
        await stdout.write(
          `${JSON.stringify({ path, text, ...(variables === null ? {} : { variables: { path: variables.path, names: variables.names } }), commands: shown })}\n`,
        );
      else {
        await stderr.write(`${path} would be:\n`);
        await stdout.write(text);
        if (variables !== null)
          await stderr.write(`${variables.path} (mode 0600) would have: ${variables.names.join(', ')}\n`);
        await stderr.write(`Then these commands would run:\n${shown.map((line) => `  ${line}\n`).join('')}`);
      }
      return EXIT.success;
    }
    const onStep = (line: string): void => void stderr.write(`==> ${line}\n`);
    const { path, isChanged, lingers } = await installUnit(
      { ...place, run: createToolRunner(env), onStep },
      serveArguments,
    );
    if (json === true) {
      await stdout.write(`${JSON.stringify({ path, isChanged, lingers })}\n`);
      return EXIT.success;
    }
    const started = env.temporalConfigured ? '`voidbox serve`' : 'The stack';
    await stdout.write(`${started} starts with your session: ${path}\n`);
    if (isChanged)
      await stderr.write(
        `${started} that ran before keeps its variables until: systemctl --user restart ${UNIT_NAME}\n`,
      );
    if (lingers !== true) await stderr.write('Start it at boot, also without a login: loginctl enable-linger\n');
    return EXIT.success;
  },
});
