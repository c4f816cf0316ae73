import { createToolRunner, readUnitStatus, type UnitStatus } from '../../../app/systemd/user-unit.ts';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { defineCommand } from '../../command.ts';
import { EXIT } from '../../exit-code.ts';

export const command = defineCommand<{ readonly json?: boolean }>({
  configure: (command) => {
    command.addHelpText('after', '\nExit code 0: the unit is enabled and active. Otherwise 1.');
  },
  async execute(_args, { json }, context) {
    const { env, cwd, stdout } = context;
    const place = { env, cwd, node: process.execPath, root: findPackageRoot() };
    const status = await readUnitStatus({ ...place, run: createToolRunner(env), onStep: () => undefined });
    await stdout.write(json === true ? `${JSON.stringify(status)}\n` : `${renderUnitStatus(status).join('\n')}\n`);
    return status.enabled === 'enabled' && status.active === 'active' ? EXIT.success : EXIT.runFailed;
  },
});

const FILES: Readonly<Record<UnitStatus['file'], string>> = {
  missing: 'does not exist; write it: voidbox service install',
  own: 'was written by this command',
  foreign: 'was not written by `voidbox service install`, or was changed since',
};

function renderUnitStatus({ path, file, isCurrent, enabled, active, lingers }: UnitStatus): readonly string[] {
  return [
    `${path} ${FILES[file]}`,
    ...(isCurrent === false
      ? ['it differs from the unit for this version and this shell; write it again: voidbox service install']
      : []),
    enabled === null ? 'systemd does not answer for this user' : `${enabled}, ${active ?? 'unknown'}`,
    ...(lingers === false ? ['it starts with your first login; at boot: loginctl enable-linger'] : []),
  ];
}
