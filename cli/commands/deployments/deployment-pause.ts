import { Option } from 'commander';
import { defineCommand } from '../../command.ts';
import { changeDeployment } from '../../deployments/change.ts';

interface Options {
  readonly deliveries?: 'hold' | 'drop';
  readonly json?: boolean;
}

export const command = defineCommand<Options>({
  configure: (command) => {
    command
      .argument('<name>', 'the name of the deployment')
      .addOption(
        new Option('--deliveries <fate>', 'hold: they start after `resume`; drop: they start nothing')
          .choices(['hold', 'drop'])
          .default('hold'),
      );
  },
  async execute([name = ''], { deliveries = 'hold', json }, context) {
    return await changeDeployment(
      {
        name,
        verb: 'pause',
        body: { deliveries },
        isJson: json === true,
        describe: ({ onPause }) =>
          `paused ${name}: its deliveries are ${onPause === 'hold' ? 'held' : 'dropped'}, and its runs continue`,
      },
      context,
    );
  },
});
