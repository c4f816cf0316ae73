// The longest dry spell of each city (data/weather.csv): a definition in TypeScript, where a loop makes the steps.
//   voidbox run examples/weather-cities.ts
//   voidbox run examples/weather-cities.ts --param wet=1.0
import { defineWorkflow, param, step } from 'voidbox';

const CITIES = ['Seattle', 'New York'] as const;

/** Days in a row with less rain than `wet`: the length, and the last of them. */
const LONGEST_SPELL = `
  $1 == ENVIRON["CITY"] {
    if ($3 + 0 < ENVIRON["WET"] + 0) { days += 1; if (days > most) { most = days; last = $2 } } else days = 0
  }
  END { printf "%s: %d dry days until %s\\n", ENVIRON["CITY"], most, last > ENVIRON["FILE"] }
`;

const spells = CITIES.map((city) => {
  const id = city.toLowerCase().replaceAll(' ', '-');
  return step(id, ['awk', '-F,', LONGEST_SPELL, '/data/weather.csv'], {
    // Variables: a parameter's value within the program of awk would be read as awk.
    env: { CITY: city, WET: param('wet'), FILE: `/workspace/${id}.txt` },
  });
});

// A step reads the output of one other; those of several reach it as files of the VM that they share.
const report = step('report', ['sh', '-c', 'cat /workspace/*.txt'], { dependsOn: spells });

export default defineWorkflow({
  name: 'weather-cities',
  params: { wet: { default: 0.1, description: 'mm of rain from which a day is wet' } },
  sandbox: { memoryMib: 256, mounts: [{ host: './data', guest: '/data' }] },
  steps: [...spells, report],
});
