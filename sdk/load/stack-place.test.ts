import { expect, test } from 'vitest';
import { placeInStack } from './stack-place.ts';

const isOwn = (file: string): boolean => file.startsWith('/opt/voidbox/');

test.each([
  ['a plain frame', '    at /home/ada/spec.ts:3:5', { file: '/home/ada/spec.ts', line: 3, column: 5 }],
  [
    'a frame of a function, as a URL',
    '    at Array.map (file:///home/ada%20l/spec.ts:12:1)',
    { file: '/home/ada l/spec.ts', line: 12, column: 1 },
  ],
  [
    'a folder with brackets',
    '    at make (/home/ada/(old)/spec.ts:1:2)',
    { file: '/home/ada/(old)/spec.ts', line: 1, column: 2 },
  ],
  [
    'frames of Voidbox and Node above it',
    '    at step (/opt/voidbox/dist/sdk/x.js:1:1)\n    at node:internal/x:1:2\n    at /home/ada/spec.ts:4:6',
    { file: '/home/ada/spec.ts', line: 4, column: 6 },
  ],
  [
    'a package above it',
    '    at /home/ada/node_modules/p/x.js:1:1\n    at /home/ada/spec.ts:4:6',
    { file: '/home/ada/spec.ts', line: 4, column: 6 },
  ],
  [
    'only a package',
    '    at /home/ada/node_modules/p/x.js:1:1',
    { file: '/home/ada/node_modules/p/x.js', line: 1, column: 1 },
  ],
  ['nothing', 'Error: no\n    at <anonymous>', null],
])('%s', (_what, stack, place) => {
  expect(placeInStack(`Error: x\n${stack}`, isOwn)).toEqual(place);
});
