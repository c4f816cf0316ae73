import { testAccess } from '../../conformance/access.ts';
import { createMemoryAccess } from './memory-access.ts';

testAccess({ name: 'in memory', open: () => Promise.resolve(createMemoryAccess()) });
