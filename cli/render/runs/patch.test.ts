import { expect, test } from 'vitest';
import { createStyle, PLAIN } from '../text/style.ts';
import { paintPatch } from './patch.ts';

const PATCH = `diff --git a/add.sh b/add.sh
index 1..2 100644
--- a/add.sh
+++ b/add.sh
@@ -1,3 +1,3 @@
-echo $(($1 - $2))
+echo $(($1 + $2))
--- no header
 a line that stays
`;

test('a patch has the colours of git', () => {
  const codes = (line: string): string => line.split('\u001b[').slice(1).map(parseFloat).join(' ');
  const painted = paintPatch(PATCH, createStyle(true)).split('\n').map(codes);
  const [bold, cyan, red, green] = ['1 22', '36 39', '31 39', '32 39'];
  expect(painted).toEqual([bold, bold, bold, bold, cyan, red, green, red, '', '']);
});

test('a patch without colours stays as it is', () => {
  expect(paintPatch(PATCH, PLAIN)).toBe(PATCH);
});
