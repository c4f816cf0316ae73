import { createToolRunner, installUnit, planUnit } from '../../../app/systemd/user-unit.ts';
import { UNIT_NAME } from '../../../app/systemd/unit-text.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';

interface Options {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  help: {
    common: ['--dry-run'],
    examples: [
      ['voidbox service install --dry-run', 'print the unit and the commands, and change nothing'],
      ['voidbox service install && loginctl enable-linger', 'start the stack at each boot, without a login'],
    ],
    notes: [
      [
        'The unit',
        'It runs `voidbox up` with the variables of this shell that concern the stack, and no secret. Set them first, such as VOIDBOX_STATE_DIR.',
      ],
      [
        'Your own settings',
        `They belong into a drop-in: systemctl --user edit ${UNIT_NAME}. A changed unit is refused.`,
      ],
    ],
    exitCodes: [
      ['0', 'the stack runs, and starts again with your session'],
      ['2', 'the unit was not written by this command, or a variable cannot be in a unit'],
      ['3', 'environment: systemd does not answer, or the stack does not start'],
    ],
  },
  configure: (command) => {
    command.option('--dry-run', 'print the unit and the commands, and change nothing');
  },
  async execute(_args, { dryRun, json }, context) {
    const { env, cwd, stdout, stderr } = context;
    const place = { env, cwd, node: process.execPath, root: findPackageRoot() };
    if (dryRun === true) {
      const { path, text, commands } = planUnit(place);
      const shown = commands.map((words) => words.join(' '));
      if (json === true) await stdout.write(`${JSON.stringify({ path, text, commands: shown })}\n`);
      else {
        await stderr.write(`${path} would be:\n`);
        await stdout.write(text);
        await stderr.write(`Then these commands would run:\n${shown.map((line) => `  ${line}\n`).join('')}`);
      }
      return EXIT.success;
    }
    const onStep = (line: string): void => void stderr.write(`==> ${line}\n`);
    const { path, isChanged, lingers } = await installUnit({ ...place, run: createToolRunner(env), onStep });
    if (json === true) {
      await stdout.write(`${JSON.stringify({ path, isChanged, lingers })}\n`);
      return EXIT.success;
    }
    await stdout.write(`The stack starts with your session: ${path}\n`);
    if (isChanged)
      await stderr.write(`A stack that ran before keeps its variables until: systemctl --user restart ${UNIT_NAME}\n`);
    if (lingers !== true) await stderr.write('Start it at boot, also without a login: loginctl enable-linger\n');
    return EXIT.success;
  },
});
