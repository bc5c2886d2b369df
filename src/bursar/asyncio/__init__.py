"""asyncio's face: Bursar programs inside asyncio."""
